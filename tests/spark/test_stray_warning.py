"""Test the data sink's warning about partitions that a broker would not serve."""

from pathlib import Path

import pyarrow as pa
import pytest

import kafkafmt
from kafkafmt.spark.sink.job_staging import staging_of
from kafkafmt.spark.sink.write_options import parse_write
from kafkafmt.spark.sink.writing import Stage, commit, new_attempt

pytest.importorskip("pyspark")


def test_sink_commit_warns_about_partitions_no_broker_serves(tmp_path: Path) -> None:
    options = parse_write({"path": str(tmp_path / "log"), "topic": "orders", "partitions": "2"})
    stage = Stage(options, {}, new_attempt(staging_of(tmp_path / "log")))
    stage.add(pa.record_batch({"value": pa.array([b"a", b"b", b"c"], pa.binary())}))
    with pytest.warns(kafkafmt.StrayPartitionWarning, match="orders-0, orders-1"):
        assert commit(options, [stage.finish()], None)
