"""Decode keys and values into typed columns, by the schemas of a registry."""

from typing import TYPE_CHECKING

from ..support.on_demand import names_on_demand
from .errors import UndecodableError

if TYPE_CHECKING:
    from .arrays import decode_values
    from .options import ValueDecoding, plan_decoding
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "arrays": ("decode_values",),
            "options": ("ValueDecoding", "plan_decoding"),  # needs pyarrow, which is optional
        },
    )

__all__ = ["UndecodableError", "ValueDecoding", "decode_values", "plan_decoding"]
