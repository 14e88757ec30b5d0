"""Define `schemas`, which reads a schema registry from files, from a topic or from its REST API."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..log.catalog import Source, single_path
from ..log.storage import is_file, list_directory
from ..support.paths import Location, input_path
from .files import read_files, schema_files
from .registry import SchemaRegistry
from .rest import read_rest
from .topic import TOPIC, find_topic, read_topic


def schemas(
    source: Source, *, context: str | None = None, on_message: Callable[[str], None] | None = None
) -> SchemaRegistry:
    """Read the schemas of a schema registry.

    Parameters
    ----------
    source : str, os.PathLike, Log, Topic or Partition
        One of these:

        - a log directory that contains the topic ``_schemas``, in which Confluent's registry,
          Karapace and Redpanda store their schemas, or the directory of this topic,
        - a schema file (``.avsc``, ``.json`` or ``.proto``), or a directory with such files, for
          example one that ``kafkafmt schemas --save`` has written,
        - the URL of a running registry (``http://…``), with a user and password if it needs them.
    context : str, optional
        Context to which unqualified subjects and ids belong first, for example ".lab". By default,
        the default context.
    on_message : callable, optional
        Function that is called with each message, as soon as the message is created.

    Returns
    -------
    SchemaRegistry
        The schemas. `SchemaRegistry.findings` lists what could not be used.

    Raises
    ------
    OSError
        The source cannot be read. The subclass `NoLogError` is raised if it contains no schemas.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    A live registry returns one version after another to its readers, but the topic also contains
    soft-deleted versions. Permanently deleted versions are not there.

    Examples
    --------
    >>> registry = kafkafmt.schemas("/var/lib/kafka/data")  # doctest: +SKIP
    >>> registry.get_latest_version("orders-value").schema  # doctest: +SKIP
    """
    if context is not None and not isinstance(context, str):
        raise TypeError(f"context must be a str, not {type(context).__name__}")
    path = single_path("source", source)
    if os.fspath(path).startswith(("http://", "https://")):
        return SchemaRegistry(*read_rest(os.fspath(path)), context)
    place = input_path(path)
    files = [] if _is_log(place) else schema_files(place)
    if files:
        return SchemaRegistry(*read_files(place, files), context)
    return SchemaRegistry(*read_topic(find_topic(path, on_message or (lambda message: None))), context)


def _is_log(place: Location) -> bool:
    """Return whether a path is a log directory with schemas, a partition directory or a log file."""
    if is_file(place):
        return place.name.endswith(".log")
    directories, names = list_directory(place)
    return f"{TOPIC}-0" in directories or any(name.endswith(".log") for name in names)
