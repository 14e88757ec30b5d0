"""Define `Report`, the base class of the results that functions such as `kafkafmt.verify` return."""

from __future__ import annotations

from typing import Any

from .text import encode_json


class Report:
    """Result of a function that has a command of the same name. A report is true if `ok` is True."""

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

    def __bool__(self) -> bool:
        """Return `ok`."""
        return self.ok
