"""Send the choice how to decode a topic to other processes, which plan the decoding themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .decoder import SideDecoder
from .options import ValueDecoding, plan_decoding
from .writers import Writers


@dataclass(frozen=True)
class TopicDecoding:
    """The arguments that decode the keys and values of a topic. Picklable, because Spark sends it to tasks."""

    topic: str
    writers: Mapping[str, Writers] = field(repr=False)
    """The schemas of each side to decode."""
    columns: tuple[str, ...] | None
    """Names of columns, and of fields such as "value.id". None selects the default columns."""
    layout: str = "nested"
    raw: bool = False

    @cached_property
    def plan(self) -> ValueDecoding:
        """How keys and values are decoded. ValueError: the arguments do not fit to the schemas of the topic."""
        return plan_decoding(self.topic, self.writers, self.columns, layout=self.layout, raw=self.raw)

    def decoders(self) -> dict[str, SideDecoder]:
        """Return new decoders of the sides that the columns need, for one thread."""
        return self.plan.decoders(self.plan.schema.names)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments. A plan contains a lock and programs of the core, which cannot be pickled."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
