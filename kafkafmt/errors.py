"""Define the errors that this package raises for damaged data.

`KafkaFormatError` is the base class. Its six subclasses differ in how a caller would handle them.
Each error has the position of the problem (`position`), the base offset of the batch
(`base_offset`) and the position at which reading may resume (`resume`). Wrong arguments raise
TypeError or ValueError. Errors of the operating system remain OSError.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class KafkaFormatError(Exception):
    """Raised when bytes do not follow Kafka's formats.

    Attributes
    ----------
    message : str
        What is wrong, without the position.
    position : int
        Position of the problem, in bytes from the start of the buffer or file.
    base_offset : int or None
        Base offset in the header of the affected batch. None if it is not known.
    resume : int or None
        The next position at which reading may succeed. None if it is not known.
    code : str
        Stable identifier of the problem, for use in programs. It does not change between releases.
        For an `InvalidError`, it is the name of the rule that the data breaks.
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
    """Raised when the input ends inside a batch or field. More bytes may complete it."""

    code: str = "truncated"


class ChecksumError(KafkaFormatError):
    """Raised when a CRC does not match the bytes that it covers."""

    code: str = "corrupt_checksum"


class StructureError(KafkaFormatError):
    """Raised when fields contradict each other or the surrounding bytes.

    Such fields are lengths, counts and deltas. This error is also raised for data that cannot be
    decompressed.
    """

    code: str = "corrupt_structure"


class UnsupportedError(KafkaFormatError):
    """Raised for a magic value, codec or version that this release does not read."""

    code: str = "unsupported"


class TooLargeError(KafkaFormatError):
    """Raised when data exceeds a limit that the caller set, such as `max_batch_bytes`."""

    code: str = "too_large"


class OffsetOverflowError(OverflowError, ValueError):
    """Raised when offsets to be assigned would exceed ``2**63 - 2``.

    An offset of ``2**63 - 1`` would not leave an offset for the next record.

    Attributes
    ----------
    next_offset : int
        The first of the offsets that were to be assigned.
    """

    def __init__(self, next_offset: int) -> None:
        super().__init__(f"offsets from {next_offset} on do not fit into 64 bits; the highest offset is 2**63 - 2")
        self.next_offset = next_offset

    def __reduce__(self) -> tuple[type[OffsetOverflowError], tuple[int]]:
        return type(self), (self.next_offset,)


class RecordError(NamedTuple):
    """A record that breaks a rule of validation.

    Attributes
    ----------
    batch_index : int
        Index of the record among all records that were passed in the call, starting at 0. Kafka
        uses the same name for this index.
    code : str
        Name of the rule that the record breaks.
    message : str
        What is wrong.
    """

    batch_index: int
    code: str
    message: str


class InvalidError(KafkaFormatError):
    """Raised when data is well-formed but breaks one of Kafka's validation rules.

    Attributes
    ----------
    code : str
        Name of the rule. It does not change between releases. The default is "invalid".
    records : tuple of RecordError
        The records that break the rule, but at most the first 65,536. Empty if the rule is not
        about records.
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
