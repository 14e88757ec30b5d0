"""Define `schemas`, which reads a schema registry from its topic, from files or from its REST API."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from ..log import Discovery, NoLogError, PartitionDir, discover
from ..log.catalog import Source, single_path
from ..log.storage import is_file, path_exists
from ..support.paths import input_path
from ..support.text import plain
from .files import INDEX, read_files, read_index, schema_files
from .registry import SchemaRegistry
from .rest import is_registry, read_rest
from .topic import TOPIC, read_topic


def schemas(
    source: Source, *, context: str | None = None, on_message: Callable[[str], None] | None = None
) -> SchemaRegistry:
    """Read the schemas of a schema registry.

    Parameters
    ----------
    source : str, os.PathLike, Log, Topic or Partition
        One of these:

        - a log directory that contains the topic ``_schemas``, in which Confluent's registry,
          Karapace and Redpanda store their schemas, or the directory of this topic under any name,
        - a schema file (``.avsc``, ``.json``, ``.proto``, or a descriptor set: ``.desc``, ``.pb`` or
          ``.binpb``), or a directory with such files,
        - a directory that ``kafkafmt schemas --save`` has written,
        - the URL of a running registry (``http://…`` or ``https://…``), with a user and password if
          the registry needs them.
    context : str, optional
        Context to which unqualified subjects, and ids, belong, for example ".lab". By default, this is
        the default context.
    on_message : callable, optional
        Function that is called with each message, as soon as the message is created.

    Returns
    -------
    SchemaRegistry
        The schemas. `SchemaRegistry.findings` lists what cannot be used.

    Raises
    ------
    OSError
        The source cannot be read. The subclass `NoLogError` is raised if it contains no schemas.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Files have no ids. The subject of a file is its path in the directory, without the suffix.

    Examples
    --------
    >>> registry = kafkafmt.schemas("/var/lib/kafka/data")  # doctest: +SKIP
    >>> registry.get_latest_version("orders-value").schema  # doctest: +SKIP
    """
    if context is not None and not isinstance(context, str):
        raise TypeError(f"context must be a str, not {type(context).__name__}")
    path = single_path("source", source)
    if isinstance(path, str) and is_registry(path):
        return SchemaRegistry(*read_rest(path), context)
    place = input_path(path)
    if is_file(place) and (files := schema_files(place)):
        return SchemaRegistry(*read_files(place, files), context)
    if path_exists(place / INDEX):
        return SchemaRegistry(*read_index(place / INDEX), context)
    try:
        found = discover([path])
    except NoLogError as error:
        if files := schema_files(place):
            return SchemaRegistry(*read_files(place, files), context)
        raise NoLogError(f"{error}; there is no schema file either") from None
    if on_message is not None:
        for message in found.messages:
            on_message(message)
    partitions = [p for p in found.partitions if p.readable]
    chosen = [p for p in partitions if p.topic == TOPIC] or [p for p in partitions if p.named]
    if not chosen:
        raise NoLogError(f"{path}: there is no topic {TOPIC}, in which a schema registry stores its schemas")
    return SchemaRegistry(*read_topic(chosen[0]), context)


def schemas_of_logs(
    found: Discovery, chosen: Sequence[PartitionDir], on_message: Callable[[str], None]
) -> SchemaRegistry:
    """Read the topic ``_schemas`` in one of the log directories of partitions. NoLogError: there are no schemas."""
    named = [d for d in found.partitions if d.topic == TOPIC and d.readable]
    place = (named or chosen)[0].path.parent
    with contextlib.suppress(NoLogError):
        registry = schemas(place, on_message=on_message)
        if len(registry):
            return registry
    raise NoLogError(f"there are no schemas of a topic {TOPIC} in {plain(str(place))}")
