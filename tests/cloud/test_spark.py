"""Read a bucket on Spark: the data source, and the input and output of an export."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_server import BUCKET, upload
from obstore.store import S3Store

import kafkafmt

SCRIPT = """
import json, sys
import kafkafmt
from kafkafmt.spark.session import make_session

url, output, bucket = sys.argv[1:]
spark = make_session("local[2]", "bucket", **{"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"})
rows = spark.read.format("kafkafmt").load(url)
print(json.dumps([[r.partition, r.offset] for r in rows.select("partition", "offset").collect()]))
for place in (output, bucket):
    print(kafkafmt.export(url, output=place).ok)  # in the same session
"""


@pytest.fixture
def url(bucket: S3Store, tmp_path: Path) -> str:
    """Return the URL of a log directory with two partitions of several segments."""
    with kafkafmt.LogDirectory(tmp_path / "log", segment_bytes=1 << 20) as directory:
        for partition in range(2):
            writer = directory.writer("t", partition)
            for _ in range(30):
                writer.append([(None, bytes(1000))] * 100)
    upload(bucket, tmp_path / "log", "spark/one")
    return f"s3://{BUCKET}/spark/*"


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_data_source_and_export_read_a_bucket(url: str, bucket: S3Store, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, str(tmp_path / "out"), f"s3://{BUCKET}/spark-out"],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": root},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows, *exported = done.stdout.splitlines()
    assert exported == ["True", "True"]
    assert sorted(map(tuple, json.loads(rows))) == [(p, o) for p in range(2) for o in range(3000)]
    local = {str(p.relative_to(tmp_path / "out")): p for p in (tmp_path / "out").rglob("*") if p.is_file()}
    uploaded = {
        without_run(o["path"].removeprefix("spark-out/")): o["path"]
        for page in obstore.list(bucket, "spark-out/")
        for o in page
    }
    assert sorted(uploaded) == sorted(local)
    assert "_SUCCESS" in uploaded
    for name in (name for name in local if name.endswith(".parquet")):
        copy = pq.read_table(pa.BufferReader(bytes(obstore.get(bucket, uploaded[name]).bytes())))
        assert copy.equals(pq.ParquetFile(local[name]).read()), name


def without_run(name: str) -> str:
    """Return the path that a file of an export to a bucket would have on a disk."""
    return re.sub(r"-[0-9a-f]{16}(-[0-9a-f]{8})?\.parquet$", ".parquet", name)
