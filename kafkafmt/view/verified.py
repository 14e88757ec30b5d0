"""Define the method `verify` of logs, topics and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..log.catalog import OpenedLog

if TYPE_CHECKING:
    from ..log.verifying import OnMessage, Progress, VerifyReport


class Verified(OpenedLog):
    """Base class of `Log`, `Topic` and `Partition`."""

    def verify(
        self,
        *,
        shallow: bool = False,
        strict: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
        on_message: OnMessage | None = None,
    ) -> VerifyReport:
        """Check all batches, records, indexes and checkpoints, like `kafkafmt.verify` with this object as `paths`.

        `kafkafmt.verify` describes the parameters, the result and the errors.
        """
        from ..log.verifying import verify

        return verify(self, shallow=shallow, strict=strict, threads=threads, progress=progress, on_message=on_message)
