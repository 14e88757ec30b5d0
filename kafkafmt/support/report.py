"""Define `Report`, the base class of the results that functions such as `kafkafmt.verify` return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .text import encode_json


class Report:
    """Result of a function that has a command of the same name. A report is true if `ok` is True."""

    command: ClassVar[str]
    """Name of the command. Its module in `kafkafmt.cli` has a function `show_report`."""
    _text_of: ClassVar[Callable[[Any], str]] = repr
    """Function that returns the text of a report. `kafkafmt` sets it, because the commands are in a layer above."""

    @property
    def exit_code(self) -> int:
        """Exit code of the command."""
        return 0

    @property
    def ok(self) -> bool:
        """Whether the exit code of the command is 0."""
        return self.exit_code == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command prints."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return the JSON text that the command prints."""
        return encode_json(self.to_dict())

    def __str__(self) -> str:
        """Return the text that the command prints. Without click and rich, return the repr."""
        return type(self)._text_of(self)

    def __bool__(self) -> bool:
        """Return `ok`."""
        return self.ok
