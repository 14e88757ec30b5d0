"""Describe damage and other findings, one by one or as rows of arrays."""

from .models import Damage, DamagedLogError, Finding, damage_text
from .rows import Joined, Rows, field_setters, objects_of

__all__ = [
    "Damage", "DamagedLogError", "Finding", "Joined", "Rows", "damage_text", "field_setters", "objects_of",
]  # fmt: skip
