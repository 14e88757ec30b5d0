"""Define the methods that return DataFrames, for partitions and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from .value_arguments import ArrowArguments

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Frames:
    """Base class of objects with the method `to_reader`."""

    def to_reader(
        self, columns: Sequence[str] | None = None, **options: Unpack[ArrowArguments]
    ) -> pa.RecordBatchReader:
        """Return the selected records as a pyarrow RecordBatchReader."""
        raise NotImplementedError

    def to_pandas(self, columns: Sequence[str] | None = None, **options: Unpack[ArrowArguments]) -> pd.DataFrame:
        """Read the selected records into a pandas DataFrame.

        `to_arrow` describes the arguments, the columns and the errors.
        """
        return self.to_reader(columns, **options).read_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, **options: Unpack[ArrowArguments]) -> pl.DataFrame:
        """Read the selected records into a Polars DataFrame.

        `to_arrow` describes the arguments, the columns and the errors.
        """
        import polars as pl

        return pl.DataFrame(self.to_reader(columns, **options).read_all())
