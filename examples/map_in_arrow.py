"""Decode record batches in a binary column with `mapInArrow`, for example record data of Fetch responses.

python examples/map_in_arrow.py FILE.log…        here each row contains the bytes of a segment
"""

import sys
from pathlib import Path

from kafkafmt.spark import decode_batches, make_session

spark = make_session()
rows = [(Path(name).parent.name, Path(name).read_bytes()) for name in sys.argv[1:]]
blobs = spark.createDataFrame(rows, "source string, records binary")

# Columns in `keep` are repeated for each record. For each damaged byte range, there is a row
# with a message in the column `error`.
decode = decode_batches("records", keep={"source": "string"}, on_error="column")
records = blobs.mapInArrow(decode, decode.schema)

records.groupBy("source").agg({"offset": "max", "*": "count", "error": "count"}).orderBy("source").show()
records.where("error is not null").select("source", "error").show(truncate=False)
spark.stop()
