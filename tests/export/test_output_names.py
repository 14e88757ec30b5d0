"""Names of outputs that an export refuses, because they look like files of another format."""

from pathlib import Path

import pytest
from command import inside

import kafkafmt

REFUSED = ["x.csv", "x.json", "x.csv.gz", "x.ndjson", "x.jsonl", "X.CSV", "x.PARQUET", "x.avro", "x.zip", "x.xlsx"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with kafkafmt.LogDirectory(tmp_path / "data") as directory:
        directory.writer("orders", 0).append([(b"k", b"v", 5)])
    return tmp_path / "data"


@pytest.mark.parametrize("name", REFUSED)
def test_export_refuses_suffix_of_another_format(name: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"an export cannot write \.\w+ files; it writes a directory of Parquet"):
        kafkafmt.export(data, tmp_path / name, engine="local")
    done = inside("export", data, "-O", tmp_path / name, "--engine", "local")
    assert done.returncode == 2
    assert f"an export cannot write {Path(name).suffix} files" in done.stderr.splitlines()[-1]
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["orders.2026", "v1.2", "kafka.backup", "x.csv/"])
def test_export_writes_directory_with_dot_in_its_name(name: str, data: Path, tmp_path: Path) -> None:
    kafkafmt.export(data, f"{tmp_path}/{name}", engine="local")
    assert (tmp_path / name / "report.json").exists()
