"""Define the errors for damaged data.

`KafkaFormatError` is the base class. Its subclasses distinguish the kinds of damage to which
callers react differently. Each error contains the position of the problem, the base offset of the
batch, and the position at which reading may continue. If an argument is wrong, a TypeError or
ValueError is raised instead. Errors of the operating system are raised as OSError.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class KafkaFormatError(Exception):
    """Raised when bytes do not follow Kafka's formats.

    Attributes
    ----------
    message : str
        Description of the problem, without its position.
    position : int
        Position of the problem, in bytes from the start of the buffer or file.
    base_offset : int or None
        Base offset in the header of the affected batch. None if it is not known.
    resume : int or None
        The next position at which reading may succeed. None if it is not known.
    code : str
        Identifier of the problem, for use in programs. The identifier does not change between
        releases. For an `InvalidError`, it is the name of the rule that the data breaks.
    """

    code: str = "format"

    def __init__(
        self, message: str, position: int = 0, base_offset: int | None = None, resume: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.base_offset = base_offset
        self.resume = resume

    def __str__(self) -> str:
        batch = "" if self.base_offset is None else f", batch at offset {self.base_offset}"
        return f"{self.message} (position {self.position}{batch})"

    def __reduce__(self) -> tuple[type[KafkaFormatError], tuple[Any, ...]]:
        return type(self), (self.message, self.position, self.base_offset, self.resume)


class TruncatedError(KafkaFormatError):
    """Raised when the input ends inside a batch or field. More bytes may complete the input."""

    code: str = "truncated"


class ChecksumError(KafkaFormatError):
    """Raised when a CRC does not match the bytes that it covers."""

    code: str = "corrupt_checksum"


class StructureError(KafkaFormatError):
    """Raised when the structure of data is wrong, for example a length, a count or an offset delta.

    A `StructureError` is also raised when data cannot be decompressed.
    """

    code: str = "corrupt_structure"


class UnsupportedError(KafkaFormatError):
    """Raised for a magic value, codec or version that this release cannot read."""

    code: str = "unsupported"


class TooLargeError(KafkaFormatError):
    """Raised when data exceeds a limit that the caller set, such as `max_batch_bytes`."""

    code: str = "too_large"


class OffsetOverflowError(OverflowError, ValueError):
    """Raised if records cannot be written, because their offsets would exceed ``2**63 - 2``.

    The offset ``2**63 - 1`` is not assigned, because there would be no valid offset for the next
    record.

    Attributes
    ----------
    next_offset : int
        First offset that could not be assigned.
    """

    def __init__(self, next_offset: int) -> None:
        super().__init__(f"offsets from {next_offset} on do not fit into 64 bits; the highest offset is 2**63 - 2")
        self.next_offset = next_offset

    def __reduce__(self) -> tuple[type[OffsetOverflowError], tuple[int]]:
        return type(self), (self.next_offset,)


class RecordError(NamedTuple):
    """A record that breaks a validation rule, and the name of the rule.

    Attributes
    ----------
    batch_index : int
        Index of the record among all records that were passed to the function, starting at 0. The
        name is the same as in Kafka's protocol.
    code : str
        Name of the rule that the record breaks.
    message : str
        Description of the problem.
    """

    batch_index: int
    code: str
    message: str


class InvalidError(KafkaFormatError):
    """Raised when intact data breaks one of the rules by which a broker validates records.

    Attributes
    ----------
    code : str
        Name of the rule. It does not change between releases. The default is "invalid".
    records : tuple of RecordError
        The first 65,536 records that break the rule. The tuple is empty if the rule does not apply
        to single records.
    """

    code: str = "invalid"

    def __init__(
        self,
        message: str,
        position: int = 0,
        base_offset: int | None = None,
        resume: int | None = None,
        code: str = "invalid",
        records: tuple[RecordError, ...] = (),
    ) -> None:
        super().__init__(message, position, base_offset, resume)
        self.code = code
        self.records = records

    def __reduce__(self) -> tuple[type[KafkaFormatError], tuple[Any, ...]]:
        return type(self), (self.message, self.position, self.base_offset, self.resume, self.code, self.records)
