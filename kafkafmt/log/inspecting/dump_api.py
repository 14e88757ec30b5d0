"""Read the batches, records and entries in the files of a log, as Kafka's DumpLogSegments does.

DumpLogSegments stops reading at an impossible size field and at zeros. This module yields a
`Problem` for damage and continues after it. A batch with a wrong CRC is yielded with `is_valid` set
to False.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...constants import DEFAULT_MAX_BATCH_BYTES
from ...support import arguments
from ...support.paths import local_path
from ..catalog import NoLogError, Source, Sources, listed, packing, resolve
from ..storage import file_size, list_directory
from .dump_batches import LogDump
from .dump_indexes import index_findings, index_items, index_sanity, snapshot_items, transaction_items
from .dump_items import EmptyIndex, Item, SaneIndex

SUFFIXES = (".checkpoint", ".index", ".log", ".snapshot", ".timeindex", ".txnindex")
BASE_OFFSET = re.compile(r"[0-9]{20}(?=\.)|[0-9]{1,19}(?=_)")
"""In a file name: `<base offset>.log`, or `<base offset>_<id>.index` from tiered storage."""
METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint\Z")
BOOTSTRAP = "bootstrap.checkpoint"
INDEXES = ("entries", "findings", "sanity")


@dataclass(frozen=True)
class DumpedFile:
    """A file of a log. Iterating over it yields its batches, records, entries or producers.

    Each iteration reads the file again.

    Attributes
    ----------
    path : Path
        Path of the file.
    base_offset : int
        The base offset in the file name. 0 if the name contains none.
    """

    path: Path
    base_offset: int
    deep: bool = False
    indexes: str = "entries"
    max_bytes: int | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    def __iter__(self) -> Iterator[Item]:
        suffix = self.path.suffix
        if suffix in (".index", ".timeindex"):
            return self._index_items()
        if suffix == ".txnindex":
            return transaction_items(self.path)
        if suffix == ".snapshot":
            return snapshot_items(self.path)
        return LogDump(self.path, self.base_offset, self.deep, self.max_bytes, self.max_batch_bytes).items()

    def _index_items(self) -> Iterator[Item]:
        if self.indexes == "sanity":
            problems = index_sanity(self.path, self.base_offset)
            yield from problems if problems else (SaneIndex(self.path),)
            return
        if self.path.suffix == ".index" and file_size(self.path) == 0:
            yield EmptyIndex(self.path)
        elif self.indexes == "entries":
            yield from index_items(self.path, self.base_offset)
        yield from index_findings(self.path)


def dump(
    paths: Sources,
    *more: Source,
    deep: bool = False,
    indexes: str = "entries",
    max_bytes: int | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    on_message: Callable[[str], None] | None = None,
    on_unreadable: Callable[[OSError], None] | None = None,
) -> Iterator[DumpedFile]:
    """Yield the files of a log. Iterate over each file to get its batches, records or entries.

    Parameters
    ----------
    paths : str, os.PathLike, Log, Topic, Partition, or an iterable of these
        `.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot` and `.checkpoint` files, or
        directories that contain such files. An open log, topic or partition is read from its paths.
    *more : str, os.PathLike, Log, Topic or Partition
        More files or directories.
    deep : bool, default False
        Also yield the records of each batch.
    indexes : {"entries", "findings", "sanity"}, default "entries"
        What to yield for `.index` and `.timeindex` files. "entries" yields all entries, and then a
        `Problem` for each disagreement with the log. "findings" yields only the problems. "sanity"
        checks the index alone, without its log, and yields `SaneIndex` if it has no problem.
    max_bytes : int, optional
        Read only this many bytes from the start of each log. By default, each log is read
        completely.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression.
    on_message : callable, optional
        Called with a message about each file that is not read.
    on_unreadable : callable, optional
        Called with the error for each directory that cannot be listed. The directory is then skipped. By
        default, the error is raised. Iterating over a file that cannot be read always raises
        OSError.

    Yields
    ------
    DumpedFile
        The files, in the order of `paths`. The files of a directory are sorted by name, and the
        files in its subdirectories follow.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. The subclass `NoLogError` is raised if there is no
        file to dump.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Kafka's counterpart is ``kafka.tools.DumpLogSegments``. Damage is yielded as a `Problem`, and
    reading continues after it.
    """
    arguments.one_of("indexes", indexes, INDEXES)
    most = arguments.optional_integer("max_bytes", max_bytes, 0)
    limit = arguments.integer("max_batch_bytes", max_batch_bytes, 1)
    given = [Path(local_path(path)) for path in resolve(listed(paths, more))[0]]
    for path in _files(given, on_message or (lambda _: None), on_unreadable):
        yield DumpedFile(path, base_offset_in(path.name), deep, indexes, most, limit)


def base_offset_in(name: str) -> int:
    """Return the base offset in the name of a file, or 0 if the name contains no offset."""
    found = BASE_OFFSET.match(name)
    return int(found[0]) if found else 0


def _files(
    given: list[Path], on_message: Callable[[str], None], on_unreadable: Callable[[OSError], None] | None
) -> Iterator[Path]:
    """Yield the given files, and the files in the given directories."""
    if not any(path.is_dir() or path.suffix in SUFFIXES or not path.exists() for path in given):
        packed = [f"; {path}: {how}" for path in given if (how := packing(path))]
        names = ", ".join(map(str, given))
        raise NoLogError(
            f"{names}: this kind of file cannot be dumped (supported suffixes: {', '.join(SUFFIXES)})" + "".join(packed)
        )
    for path in given:
        path.stat()  # raise OSError if the path does not exist
        if path.is_dir():
            skipped: list[OSError] = []
            found = list(_below(path, None if on_unreadable is None else skipped.append))
            if on_unreadable is not None:
                for error in skipped:
                    on_unreadable(error)
            if not found and not skipped:
                raise NoLogError(
                    f"{path} contains no file that can be dumped (supported suffixes: {', '.join(SUFFIXES)})"
                )
            yield from found
        elif path.suffix in SUFFIXES:
            yield path
        else:
            how = packing(path)
            on_message(f"Ignoring unknown file {path}" + (f": {how}" if how else ""))


def _below(path: Path, on_unreadable: Callable[[OSError], None] | None) -> Iterator[Path]:
    """Yield the files in a partition directory, or in all partitions of a log directory."""
    directories, names = list_directory(path)
    known = (n for n in names if n.endswith(SUFFIXES))
    yield from (path / n for n in known if BASE_OFFSET.match(n) or METADATA_SNAPSHOT.match(n) or n == BOOTSTRAP)
    for directory in directories:
        try:
            yield from [p for p in _below(path / directory, on_unreadable) if p.parent == path / directory]
        except OSError as error:
            if on_unreadable is None:
                raise
            on_unreadable(error)
