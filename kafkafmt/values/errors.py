"""Errors about schemas and about the decoding of values."""

from __future__ import annotations

from ..errors import KafkaFormatError


class UndecodableError(KafkaFormatError):
    """A value cannot be decoded, and `on_undecodable` is "fail".

    `code` says why: it is one of the error codes of decoded values.
    """

    def __init__(self, code: str, message: str, position: int = 0) -> None:
        super().__init__(message, position)
        self.code = code
        self.records_before = 0  # the number of records of its chunk that precede it; not for users

    def __reduce__(self) -> tuple[type[UndecodableError], tuple[str, str, int]]:
        return type(self), (self.code, self.message, self.position)


class NoSchemasError(ValueError):
    """No side of a topic has schemas."""


class InvalidSchemaError(ValueError):
    """The text of a schema does not follow the specification of its format."""


class TooManyColumnsError(ValueError):
    """A schema needs more than MOST_COLUMNS columns."""


class UnresolvableError(InvalidSchemaError):
    """Values of the schema cannot be read as the type that was chosen."""


class ValueFault(Exception):
    """A value cannot be decoded. `code` is one of VALUE_FAULTS, and `position` is in bytes from its start."""

    def __init__(self, code: str, position: int) -> None:
        super().__init__(code)
        self.code = code
        self.position = position
