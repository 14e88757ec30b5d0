"""Build the output directory so that an interrupted salvage leaves nothing that looks complete.

All files are written to `.kafkafmt-salvage` below the output directory, synced together, and then
moved to the output directory. As long as `.kafkafmt-salvage` exists, kafkafmt refuses to read the
output directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...errors import StructureError
from ...support.paths import Location, UrlPath, full_disk_named, output_path
from ...support.text import shown
from ..catalog import INCOMPLETE, PartitionDir
from ..formats import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    clean_shutdown_text,
    offset_checkpoint_text,
    read_meta_properties,
)
from ..storage import file_size, list_directory, narrowed_mode, read_text, sync_directory, sync_tree, write_new
from .salvage_files import copy_file, copy_readable
from .salvage_source import ALL_FILE_BITS, BOOTSTRAP, Bounds, restrict
from .salvaged import OWNER, Salvaged


class OutputPlaceError(ValueError):
    """Raised if the output path of salvage is inside the source or is not a directory.

    Attributes
    ----------
    output : str
        The path that the caller passed.
    reason : str
        What is wrong with the path.
    """

    def __init__(self, output: str, reason: str) -> None:
        super().__init__(f"{shown(output)} {reason}")
        self.output = output
        self.reason = reason

    def __reduce__(self) -> tuple[type[OutputPlaceError], tuple[str, str]]:
        return type(self), (self.output, self.reason)


def output_directory(output: str | os.PathLike[str], sources: Iterable[PartitionDir]) -> Path:
    """Return the absolute path of the output. OutputPlaceError: it is inside a source. ValueError: it is not local."""
    # A partition directory of the source, and a log directory that the caller passed, must not contain it.
    target = output_path(output)
    given = os.fspath(output)
    real = Path(os.path.realpath(target))
    for source in sources:
        if isinstance(source.path, UrlPath):
            continue
        folder = Path(os.path.realpath(source.path.parent))
        if (
            real.is_relative_to(os.path.realpath(source.path))
            or real == folder
            or (not source.named and real.is_relative_to(folder))
        ):
            place = f"contains {source.path}" if real == folder else f"is inside {source.path.parent}"
            raise OutputPlaceError(given, f"{place}, which is an input; choose another output directory")
    if target.exists() and not target.is_dir():
        raise OutputPlaceError(given, "exists and is not a directory")
    return target


def finish_directory(
    output: Path, partitions: Iterable[Salvaged], roots: Iterable[Location], bounds: Bounds | None = None
) -> list[str]:
    """Write the files of a log directory of complete partitions, without a sync."""
    # Return messages about missing files. The first valid `meta.properties` in `roots` is copied: it identifies the
    # broker.
    messages = []
    made, sources = list(partitions), list(roots)
    bounds = bounds or Bounds(sources)
    foreign = {entry.path for root in sources for entry in bounds.foreign_root_files(root)}
    mode = ALL_FILE_BITS
    for partition in made:
        mode &= partition.mode
    for name in OFFSET_CHECKPOINTS:
        offsets = {(p.topic, p.partition): p.offsets[name] for p in made if name in p.offsets}
        known = narrowed_mode(mode, *(root / name for root in sources))
        write_new(output / name, offset_checkpoint_text(offsets).encode(), known | OWNER, synced=False)
    identity = None
    for root in sources:
        source = root / META_PROPERTIES
        if source in foreign:
            continue
        try:
            text = read_text(source)
            if text is None:
                continue
            read_meta_properties(text)
        except StructureError as error:
            messages.append(f"{source}: not copied: {error.message.removeprefix(f'{META_PROPERTIES}: ')}")
            continue
        if identity is not None:
            messages.append(f"{output}: contains the {META_PROPERTIES} of {identity}; that of {root} is not copied")
            continue
        identity = root
    if identity is None:
        messages.append(f"{output}: has no {META_PROPERTIES}; a broker needs one (`kafka-storage.sh format` writes it)")
    elif identity / BOOTSTRAP not in foreign and file_size(identity / BOOTSTRAP) is not None:
        mode_of_copy = narrowed_mode(ALL_FILE_BITS, identity / BOOTSTRAP) | OWNER
        reason = copy_readable(identity / BOOTSTRAP, output / BOOTSTRAP, mode_of_copy)
        messages += [] if reason is None else [f"{identity / BOOTSTRAP}: not copied: {reason}"]
    write_new(output / CLEAN_SHUTDOWN, clean_shutdown_text().encode(), mode | OWNER, synced=False)
    if identity is not None:
        _copy(identity / META_PROPERTIES, output / META_PROPERTIES)
    return messages


def _copy(source: Location, target: Path) -> None:
    copy_file(source, target, narrowed_mode(ALL_FILE_BITS, source) | OWNER)


class Output:
    """Builds a log directory in a hidden subdirectory, and moves the complete files to their final place."""

    # In a ``with`` block of `opened`, write files to the directory `work`, and call `publish`. The target must be new
    # or empty, except for the `.kafkafmt-salvage` of an interrupted run.

    def __init__(self, target: Path, mode: int = 0o777, doing: str = "salvaging") -> None:
        self.target = target
        self._busy = f"another process is {doing} into this directory"
        self.work: Path = target / INCOMPLETE
        self._mode = mode
        self._created = self._working = False
        self._published: list[str] = []
        self._lock = -1

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Create the target directory and the directory `work`. After an error in the block, remove both."""
        # FileExistsError: the target contains other files. BlockingIOError: another process is writing into it.
        with full_disk_named(self.target):
            try:
                self._open()
                yield
            except BaseException:
                self._discard()
                raise

    def _open(self) -> None:
        if not self.target.exists():
            self._created = True
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self.target.mkdir(self._mode)
        entries = os.listdir(self.target)
        if INCOMPLETE in entries:
            self._take_lock()
            if entries != [INCOMPLETE]:
                why = "an interrupted command left incomplete data; delete the directory and run the command again"
                raise FileExistsError(errno.EEXIST, why, str(self.target))
            shutil.rmtree(self.work)
            self._release_lock()
        elif entries:
            raise FileExistsError(
                errno.EEXIST, "the directory is not empty; specify a new or an empty directory", str(self.target)
            )
        self._working = True
        try:
            self.work.mkdir(0o700)
        except FileExistsError:
            self._working = False  # another process created the directory at the same time
            raise BlockingIOError(errno.EAGAIN, self._busy, str(self.target)) from None
        self._take_lock()

    def _take_lock(self) -> None:
        self._lock = os.open(self.work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._working = False
            raise BlockingIOError(errno.EAGAIN, self._busy, str(self.target)) from None

    def _release_lock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def publish(self, made: Iterable[Salvaged]) -> None:
        """Sync all files, and move them to the target, each partition with one rename and `meta.properties` last."""
        sync_tree(self.work, self._lock)
        partitions = {m.path.name: m for m in made}
        mode = ALL_FILE_BITS
        for partition in partitions.values():
            mode &= partition.mode
        directories, names = list_directory(self.work)
        for name in directories:
            if name in partitions:
                partitions[name].narrow(self.work / name)
        for name in names:
            if name not in (META_PROPERTIES, BOOTSTRAP):
                restrict(self.work / name, mode)
        last = [META_PROPERTIES] if META_PROPERTIES in names else []
        for name in [*directories, *(n for n in names if n != META_PROPERTIES), *last]:
            self._published.append(name)
            os.rename(self.work / name, self.target / name)
        sync_directory(self.target)
        self.work.rmdir()
        sync_directory(self.target)
        self._release_lock()

    def _discard(self) -> None:
        """Remove the files that were written, and the target directory if `_open` has created it."""
        for name in self._published:
            path = self.target / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if self._working:
            shutil.rmtree(self.work, ignore_errors=True)
        if self._created:
            # Removing the directory fails if another process has written files to it.
            with suppress(OSError):
                self.target.rmdir()
        self._release_lock()
