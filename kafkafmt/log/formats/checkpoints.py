"""Parse and serialize the small text files of a log directory.

- Checkpoints (Kafka: ``CheckpointFile``) are lists of entries. Line 1 is the version, 0. Line 2 is
  the number of entries. Each further line is an entry. An empty file has no entries.
- ``partition.metadata`` (Kafka: ``PartitionMetadataFile``) has `key: value` lines.
- ``meta.properties`` (Kafka: ``MetaProperties``) is a Java properties file.
- ``.kafka_cleanshutdown`` (Kafka: ``CleanShutdownFileHandler``) is a JSON file. Brokers up to Kafka
  3.6 write an empty file instead.

If a broker would not accept the content of a file, the functions raise StructureError. The message
contains the name of the file and, if possible, the line number.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping

from ...constants import MAX_OFFSET
from ...errors import StructureError
from ...support.text import quantity, shown
from .names import can_be_checkpointed

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (LOG_STARTS, CLEANER_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS)
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PROPERTY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)\Z", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}\Z")


def _entries(text: str, parts: int, name: str) -> list[list[str]]:
    if not text:
        return []
    lines = text.splitlines()
    if lines[0].strip() != "0":
        raise StructureError(f"{name}: the version is {lines[0][:40]!r}; it must be 0")
    if len(lines) < 2:
        raise StructureError(f"{name}: line 2, the number of entries, is missing")
    count = _number(lines[1].strip(), name, 2)
    # Limit the number of fields, because splitting a long line into many fields would need much memory.
    entries = [line.split(None, parts) for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise StructureError(f"{name}: line 2 states {quantity(count, 'entry')}, but the file contains {len(entries)}")
    for number, entry in enumerate(entries, 3):
        if len(entry) != parts:
            found = len(entry) if len(entry) < parts else f"more than {parts}"
            raise StructureError(f"{name}: line {number} has {found} fields; it must have {parts}")
    return entries


def _number(text: str, name: str, line: int) -> int:
    """Parse a 64-bit integer like Java's ``Long.parseLong``, but accept only ASCII digits."""
    number = int(text) if _NUMBER.match(text) else MAX_OFFSET + 1
    if not -MAX_OFFSET - 1 <= number <= MAX_OFFSET:
        raise StructureError(f"{name}: line {line}: {text[:40]!r} is not a 64-bit integer")
    return number


def read_offset_checkpoint(text: str, name: str) -> dict[tuple[str, int], int]:
    """Parse an offset checkpoint, with lines `topic partition offset`, into a dict by topic and partition."""
    return {
        (topic, _number(partition, name, line)): _number(offset, name, line)
        for line, (topic, partition, offset) in enumerate(_entries(text, 3, name), 3)
    }


def read_leader_epochs(text: str, name: str = LEADER_EPOCHS) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) entries of a ``leader-epoch-checkpoint``, in file order."""
    epochs = [
        (_number(a, name, line), _number(b, name, line)) for line, (a, b) in enumerate(_entries(text, 2, name), 3)
    ]
    for line, (epoch, offset) in enumerate(epochs, 3):
        if epoch < 0 or offset < 0:
            raise StructureError(f"{name}: line {line}: epoch {epoch} or offset {offset} is negative")
    return epochs


def offset_checkpoint_text(offsets: Mapping[tuple[str, int], int]) -> str:
    """Return the text of an offset checkpoint as a broker writes it."""
    # ValueError: an entry is invalid. A broker rejects the whole file if it contains one.
    return _checkpoint_text(_offset_line(*key, offset) for key, offset in offsets.items())


def _offset_line(topic: str, partition: int, offset: int) -> str:
    if not can_be_checkpointed(topic, partition):
        raise ValueError(
            f"a checkpoint cannot contain partition {partition} of topic {shown(topic)}: "
            "the topic name or the partition number is invalid"
        )
    if not 0 <= offset <= MAX_OFFSET:
        raise ValueError(f"a checkpoint cannot contain offset {offset} of {topic}-{partition}")
    return f"{topic} {partition} {offset}"


def leader_epochs_text(epochs: Iterable[tuple[int, int]]) -> str:
    """Return the text of a ``leader-epoch-checkpoint`` as a broker writes it."""
    return _checkpoint_text(f"{epoch} {offset}" for epoch, offset in epochs)


def _checkpoint_text(entries: Iterable[str]) -> str:
    lines = list(entries)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))


def read_partition_metadata(text: str, name: str = PARTITION_METADATA) -> dict[str, str]:
    """Return the keys and values of ``partition.metadata``: `version` and a valid `topic_id` are required."""
    # As in Kafka (``PartitionMetadataFile``), an id that consists of zeros is invalid.
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, colon, value = line.partition(":")
        if not colon:
            raise StructureError(f"{name}: line {number} is not of the form 'key: value'")
        values[key.strip()] = value.strip()
    if not values.get("version", "").isdigit() or not values.get("topic_id"):
        raise StructureError(f"{name}: version or topic_id is missing")
    try:
        topic_id = uuid_bytes(values["topic_id"])
    except StructureError as error:
        raise StructureError(f"{name}: topic_id {error.message}") from None
    if not any(topic_id):
        raise StructureError(f"{name}: topic_id consists of zeros")
    return values


def partition_metadata_text(topic_id: str) -> str:
    """Return the text of ``partition.metadata`` as a broker writes it, without a newline at its end."""
    return f"version: 0\ntopic_id: {topic_id}"


def uuid_bytes(text: str) -> bytes:
    """Decode the text form of a topic, cluster or directory id (22 base64url characters) to its 16 bytes."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    if len(data) != 16:
        raise StructureError(f"{text[:40]!r} is not a 16-byte id in base64url, which has 22 characters")
    return data


def read_meta_properties(text: str, name: str = META_PROPERTIES) -> dict[str, str]:
    """Return the keys and values of ``meta.properties``; `version` is "0" if it is missing."""
    # Version 0 can contain broker.id and cluster.id. Version 1 must contain cluster.id and node.id, and can contain
    # directory.id.
    values = _properties(text)
    version = values.setdefault("version", "0")
    if version not in ("0", "1"):
        raise StructureError(f"{name}: the version is {version[:40]!r}; it must be 0 or 1")
    for key in ("cluster.id", "node.id") if version == "1" else ():
        if not values.get(key):
            raise StructureError(f"{name}: {key} is missing")
    for key in ("broker.id", "node.id"):
        if key in values and not _NUMBER.match(values[key]):
            raise StructureError(f"{name}: {key} {values[key][:40]!r} is not a number")
    if "directory.id" in values:
        try:
            uuid_bytes(values["directory.id"])
        except StructureError as error:
            raise StructureError(f"{name}: directory.id {error.message}") from None
    return values


def meta_properties_text(values: Mapping[str, str]) -> str:
    """Return the text of a ``meta.properties`` file. A broker also writes the date into a comment."""
    return "#\n" + "".join(f"{_escaped(key, ' =:#!')}={_escaped(value, '=:#!')}\n" for key, value in values.items())


def _properties(text: str) -> dict[str, str]:
    """Parse a Java properties file with comments, continuation lines and escape sequences."""
    values: dict[str, str] = {}
    continued = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = continued + line.lstrip(" \t\f")
        continued = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            continued = line[:-1]
            continue
        match = _PROPERTY.match(line)
        assert match is not None
        values[_unescaped(match[1])] = _unescaped(match[2])
    return values


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _ESCAPES.get(m[1], m[1]), text)


def _escaped(text: str, special: str) -> str:
    named = {c: "\\" + letter for letter, c in _ESCAPES.items()}
    return "".join(named.get(c) or ("\\" + c if c in special + "\\" else c) for c in text)


def read_clean_shutdown(text: str, name: str = CLEAN_SHUTDOWN) -> int:
    """Return the broker epoch in a ``.kafka_cleanshutdown`` file, or -1 if it is empty, as up to Kafka 3.6."""
    if not text.strip():
        return -1
    try:
        found = json.loads(text)
        epoch = found["brokerEpoch"]
        if not isinstance(epoch, int):
            raise TypeError
    except (ValueError, TypeError, KeyError):
        raise StructureError(f"{name}: the content is not JSON with an integer brokerEpoch") from None
    return epoch


def clean_shutdown_text(broker_epoch: int = -1) -> str:
    """Return the content of a ``.kafka_cleanshutdown`` file, in the JSON format of Kafka 3.7 and later."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
