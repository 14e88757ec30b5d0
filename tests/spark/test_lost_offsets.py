"""Test that lost offsets are an error in Spark, unless failOnDataLoss is false."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden_cases import GOLDEN
from metadata_logs import MetadataLog, record, uuid
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

SEGMENTS = GOLDEN / "kafka-4.3.1" / "segments" / "log"
TOPIC = "segments-time"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a log without the segment of the offsets 9 to 17."""
    folder = shutil.copytree(SEGMENTS, tmp_path / "in")
    for path in (folder / f"{TOPIC}-0").glob(f"{9:020}.*"):
        path.unlink()
    return folder


def load(spark: SparkSession, path: Path, **options: str | int) -> DataFrame:
    return spark.read.format("kafkafmt").options(subscribe=TOPIC, **options).load(str(path))


@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
@pytest.mark.parametrize("split", [64 << 20, 300])
def test_missing_segment_is_an_error(mode: str, split: int, source: Path, spark: SparkSession) -> None:
    with pytest.raises(PythonException, match="offsets 9 to 17 cannot be read"):
        load(spark, source, mode=mode, splitBytes=split).toArrow()
    assert load(spark, source, mode=mode, splitBytes=split, failOnDataLoss="false").toArrow().num_rows == 191


def test_only_selected_lost_offsets_are_an_error(source: Path, spark: SparkSession) -> None:
    offsets = f'{{"{TOPIC}": {{"0": 18}}}}'
    assert load(spark, source, startingOffsets=offsets).toArrow().num_rows == 182
    assert load(spark, source, endingOffsets=f'{{"{TOPIC}": {{"0": 9}}}}').toArrow().num_rows == 9


def test_compacted_topic_loses_nothing(source: Path, spark: SparkSession) -> None:
    """The driver reads the metadata log, and sends the answer to the tasks."""
    MetadataLog(source).append(
        record("TopicRecord", name=TOPIC, topic_id=uuid(1)),
        record("ConfigRecord", resource_type=2, resource_name=TOPIC, name="cleanup.policy", value="compact"),
    )
    assert load(spark, source).toArrow().num_rows == 191


def test_missing_end_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    folder = shutil.copytree(SEGMENTS, tmp_path / "in")
    last = max((folder / f"{TOPIC}-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-10])
    with pytest.raises(AnalysisException, match="offset 199 cannot be read"):
        load(spark, folder).toArrow()
    assert load(spark, folder, failOnDataLoss="false").toArrow().num_rows == 199
    assert load(spark, folder, endingOffsets=f'{{"{TOPIC}": {{"0": 199}}}}').toArrow().num_rows == 199


def test_stream_fails_only_for_loss_below_its_planned_end(source: Path, tmp_path: Path, spark: SparkSession) -> None:
    last = max((source / f"{TOPIC}-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-10])

    def run(start: int, fail: bool) -> int:
        stream = spark.readStream.format("kafkafmt").option("subscribe", TOPIC).option("failOnDataLoss", fail)
        stream = stream.option("startingOffsets", f'{{"{TOPIC}": {{"0": {start}}}}}')
        name = f"lost_{start}_{fail}".lower()
        writer = stream.load(str(source)).writeStream.format("memory").queryName(name).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()
        return spark.table(name).count()

    assert run(18, True) == 181
    assert run(0, False) == 190
    with pytest.raises(Exception, match="offsets 9 to 17 cannot be read"):
        run(0, True)
