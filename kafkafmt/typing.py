"""The types of arguments of public functions, for annotations in your own code."""

from .constants import Codec, Isolation, OnError
from .log.catalog import AnyPath, Source, Sources
from .log.reading import HasFileno, Time
from .log.verifying import Globs, Numbers, OnMessage, Progress
from .log.writing import LogSettingsOptions
from .records.signatures import BatchOptions, BufferSelection, BuilderOptions, Headers, RecordLike, ValidatorOptions
from .types import Buffer
from .view.find_arguments import HeaderConditions, Pattern
from .view.selection_arguments import SelectionArguments
from .view.value_arguments import ArrowArguments, ValueArguments

__all__ = [
    "AnyPath",
    "ArrowArguments",
    "BatchOptions",
    "Buffer",
    "BufferSelection",
    "BuilderOptions",
    "Codec",
    "Globs",
    "HasFileno",
    "HeaderConditions",
    "Headers",
    "Isolation",
    "LogSettingsOptions",
    "Numbers",
    "OnError",
    "OnMessage",
    "Pattern",
    "Progress",
    "RecordLike",
    "SelectionArguments",
    "Source",
    "Sources",
    "Time",
    "ValidatorOptions",
    "ValueArguments",
]
