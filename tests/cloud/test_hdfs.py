"""Read golden logs from an HDFS cluster of one machine, through its REST API (WebHDFS)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import java_tools
import pytest
from command import inside
from golden_cases import CASES

import kafkafmt

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are installed"),
]
HADOOP = "3.4.1"
ARTIFACTS = (
    f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP}",
    f"org.apache.hadoop:hadoop-client-runtime:{HADOOP}",
    f"org.apache.hadoop:hadoop-client-api:{HADOOP}",
    "org.mockito:mockito-core:4.11.0",
    "junit:junit:4.13.2",
    "javax.xml.bind:jaxb-api:2.3.1",  # WebHDFS needs it since Java 11
)
CASE = next(c for c in CASES if c.name == "epochs" and c.folder.parent.name.startswith("kafka-4"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run an HDFS cluster that contains a golden log, and return the URL of the log."""
    folder = tmp_path_factory.mktemp("hdfs")
    path = java_tools.classpath(*ARTIFACTS)
    source = Path(__file__).with_name("MiniHdfs.java")
    command = [java_tools.program("java"), "-cp", path, str(source), str(folder / "data"), str(CASE.folder / "log")]
    with (folder / "errors").open("wb") as errors:
        cluster = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert cluster.stdout is not None
        line = next((line for line in cluster.stdout if line.startswith("ready ")), None)
        assert line is not None, (folder / "errors").read_text()[-2000:]
        yield f"webhdfs://127.0.0.1:{line.split()[1]}/log"
    finally:
        cluster.kill()
        cluster.wait()


def test_logs_in_hdfs_are_read(url: str) -> None:
    local, found = kafkafmt.open(CASE.folder / "log"), kafkafmt.open(url)
    assert [(p.topic, p.partition) for p in found] == [(p.topic, p.partition) for p in local]
    for p in local:
        assert found[p.topic, p.partition].to_arrow().equals(p.to_arrow())
    assert kafkafmt.verify(url).ok == kafkafmt.verify(CASE.folder / "log").ok


def test_missing_path_in_hdfs_is_reported(url: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        kafkafmt.open(f"{url}/missing")


def test_export_to_hdfs_is_refused(url: str) -> None:
    done = inside("export", CASE.folder / "log", "--output", f"{url}-out")
    assert done.returncode == 2
    assert "output can be written only to local files and to s3://, gs:// and az:// URLs" in done.stderr
