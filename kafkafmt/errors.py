"""The errors that leave this package for bad data.

One root and six children, divided by what a caller would do differently. Each error says where the trouble lies
(`position`), whose batch it is (`base_offset`), and from where on reading may go on (`resume`). Wrong arguments are
`TypeError` or `ValueError` as everywhere in Python; what the operating system refuses stays an `OSError`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class KafkaFormatError(Exception):
    """Bytes that are not what Kafka's formats say they should be.

    Attributes:
        position: bytes from the start of the buffer or file to the place of the trouble.
        base_offset: base offset of the batch concerned, as its header has it; None where that is not known.
        resume: the next position worth trying; None where none is known.
        code: a word that stays the same from release to release, for programs.
        rule: the same, but of an InvalidError the rule that is broken.
    """

    code = "format"

    def __init__(
        self, message: str, position: int = 0, base_offset: int | None = None, resume: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.base_offset = base_offset
        self.resume = resume
        self.rule = self.code

    def __str__(self) -> str:
        batch = "" if self.base_offset is None else f", batch at offset {self.base_offset}"
        return f"{self.message} (position {self.position}{batch})"

    def __reduce__(self) -> tuple[type[KafkaFormatError], tuple[Any, ...]]:
        return type(self), (self.message, self.position, self.base_offset, self.resume)


class TruncatedError(KafkaFormatError):
    """The input ends inside what is being read; more bytes may complete it."""

    code = "truncated"


class ChecksumError(KafkaFormatError):
    """A CRC does not match the bytes that it covers."""

    code = "corrupt_checksum"


class StructureError(KafkaFormatError):
    """Fields contradict each other or the bytes around them: lengths, counts, deltas, framing, compressed data."""

    code = "corrupt_structure"


class UnsupportedError(KafkaFormatError):
    """Something that this release does not read: a magic value, a codec, a version."""

    code = "unsupported"


class TooLargeError(KafkaFormatError):
    """A limit given by the caller would be passed."""

    code = "too_large"


class OffsetOverflowError(OverflowError, ValueError):
    """Offsets to be assigned would exceed 2**63 - 2, the largest that leaves an offset for the next record."""

    def __init__(self, next_offset: int) -> None:
        super().__init__(f"offsets from {next_offset} on do not fit into 64 bits: the last one can be 2**63 - 2")
        self.next_offset = next_offset

    def __reduce__(self) -> tuple[type[OffsetOverflowError], tuple[int]]:
        return type(self), (self.next_offset,)


class RecordError(NamedTuple):
    """One record against a rule: its place among the records that were given, counted from 0, the rule, and what is wrong."""

    batch_index: int
    rule: str
    message: str


class InvalidError(KafkaFormatError):
    """Well-formed, but against one of Kafka's rules of validation.

    rule: the rule's name, which stays the same. records: the records concerned (the first 65,536), if the rule is about records.
    """

    code = "invalid"

    def __init__(
        self,
        message: str,
        position: int = 0,
        base_offset: int | None = None,
        resume: int | None = None,
        rule: str = "",
        records: tuple[RecordError, ...] = (),
    ) -> None:
        super().__init__(message, position, base_offset, resume)
        self.rule = rule
        self.records = records

    def __reduce__(self) -> tuple[type[KafkaFormatError], tuple[Any, ...]]:
        return type(self), (self.message, self.position, self.base_offset, self.resume, self.rule, self.records)
