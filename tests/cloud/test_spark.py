"""Read a bucket on Spark: the data source, and the input of an export."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from object_server import BUCKET, Proxy, upload
from obstore.store import S3Store

import kafkafmt

SCRIPT = """
import json, sys
import kafkafmt
from kafkafmt.spark.session import make_session

url, output = sys.argv[1:]
report = kafkafmt.export(url, output=output, master="local[2]")
print(report.ok)
spark = make_session("local[2]", "bucket", **{"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"})
rows = spark.read.format("kafkafmt").load(url)
print(json.dumps([[r.partition, r.offset] for r in rows.select("partition", "offset").collect()]))
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
def test_data_source_and_export_read_a_bucket(url: str, proxy: Proxy, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, str(tmp_path / "out")],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": root},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ok, rows = done.stdout.splitlines()
    assert ok == "True"
    assert sorted(map(tuple, json.loads(rows))) == [(p, o) for p in range(2) for o in range(3000)]
    assert (tmp_path / "out" / "_SUCCESS").exists()
    import pyarrow.dataset

    assert pyarrow.dataset.dataset(tmp_path / "out" / "data").count_rows() == 6000
