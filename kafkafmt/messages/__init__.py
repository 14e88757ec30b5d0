"""Kafka's messages: their fields as text, classes made of these, their bytes by the core, and Kafka's JSON."""

from .as_json import to_json
from .classes import Message, layout_of, make_class

__all__ = ["Message", "layout_of", "make_class", "to_json"]
