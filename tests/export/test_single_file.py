"""Test exports to a single Parquet file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import process as command
from exporting import expected_rows, rows_of
from golden_cases import CASES, Case, case, same_rows

import kafkafmt
from kafkafmt.arrow.builder import SCHEMA
from kafkafmt.log.repairing.salvage_output import OutputPlaceError

CODECS = case("codecs").roots
TORN = case("torn").roots[0]


def export(paths: Any, out: Path, **options: Any) -> kafkafmt.reports.ExportReport:
    report = kafkafmt.export(paths, out, engine="local", **options)
    written = out.with_name(f"{out.name}.report.json")
    assert {p.name for p in out.parent.iterdir()} == {out.name, written.name}
    assert json.loads(written.read_text(encoding="utf-8")) == report.to_dict()
    assert report.written.files == 1
    assert report.written.bytes == sum(p.written.bytes for p in report.partitions)
    return report


@pytest.mark.parametrize("golden", [c for c in CASES if not c.torn and not c.internal], ids=str)
def test_file_contains_the_consumers_records(golden: Case, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.parquet"
    report = export(golden.roots, out)
    table = pq.read_table(out)
    assert table.schema.remove_metadata() == SCHEMA
    same_rows(rows_of(table), expected_rows(golden))
    assert report.written.records == table.num_rows
    assert report.written.bytes in (out.stat().st_size, 0)
    keys = list(zip(*(table[n].to_pylist() for n in ("topic", "partition", "offset")), strict=True))
    assert keys == sorted(keys)


def test_columns_and_codec_are_chosen(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    export(CODECS, out, columns=["value", "topic"], compression="snappy", topics="codec-gzip")
    file = pq.ParquetFile(out)
    assert file.schema_arrow.names == ["value", "topic"]
    assert file.metadata.row_group(0).column(0).compression == "SNAPPY"
    assert set(file.read()["topic"].to_pylist()) == {"codec-gzip"}


def test_several_splits_keep_the_order(tmp_path: Path) -> None:
    log, out = tmp_path / "log" / "t-0", tmp_path / "files" / "out.parquet"
    log.mkdir(parents=True)
    batches = [kafkafmt.build_batch([(b"k", bytes(100_000), 0)] * 10, base_offset=n * 10) for n in range(80)]
    (log / f"{0:020}.log").write_bytes(b"".join(batches[:40]))
    (log / f"{400:020}.log").write_bytes(b"".join(batches[40:]))
    export(log.parent, out, columns=["offset", "value"])
    assert pq.read_table(out)["offset"].to_pylist() == list(range(800))


def test_log_without_records_gives_a_file_without_rows(tmp_path: Path) -> None:
    out = tmp_path / "files" / "out.parquet"
    export(CODECS, out, topics="codec-gzip", start=10**9)
    assert pq.read_table(out).num_rows == 0
    assert pq.read_schema(out).names == SCHEMA.names


def test_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    out.write_text("precious")
    with pytest.raises(kafkafmt.OutputExistsError):
        kafkafmt.export(CODECS, out, engine="local")
    assert out.read_text() == "precious"
    export(CODECS, out, overwrite=True)
    assert pq.read_table(out).num_rows == len(expected_rows(case("codecs")))
    out.unlink()
    out.mkdir()
    for overwrite in (False, True):
        with pytest.raises(OutputPlaceError, match=r"is a directory, but a name that ends with \.parquet"):
            kafkafmt.export(CODECS, out, engine="local", overwrite=overwrite)


def test_single_file_can_contain_only_topic_and_partition(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    export(CODECS, out, columns=["partition", "topic"])
    table = pq.read_table(out)
    assert table.column_names == ["partition", "topic"]
    everything = tmp_path / "all" / "out.parquet"
    export(CODECS, everything)
    assert table.to_pylist() == pq.read_table(everything, columns=["partition", "topic"]).to_pylist()


@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_pipe_or_device_is_never_replaced(name: str, tmp_path: Path) -> None:
    """An export with `overwrite` to /dev/null would otherwise replace the device, if the user is root."""
    os.mkfifo(tmp_path / name)
    for overwrite in (False, True):
        with pytest.raises(OutputPlaceError, match="is a device or a pipe"):
            kafkafmt.export(CODECS, tmp_path / name, engine="local", overwrite=overwrite)
    assert (tmp_path / name).is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_existing_report_is_replaced_only_on_request(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    written = tmp_path / "out.parquet.report.json"
    written.write_text("precious")
    with pytest.raises(kafkafmt.OutputExistsError, match=r"out\.parquet\.report\.json already exists"):
        kafkafmt.export(CODECS, out, engine="local")
    assert (out.exists(), written.read_text()) == (False, "precious")
    export(CODECS, out, overwrite=True)
    out.unlink()
    written.unlink()
    written.mkdir()
    with pytest.raises(OutputPlaceError, match="is a directory, but it must be the file with the report"):
        kafkafmt.export(CODECS, out, engine="local", overwrite=True)
    assert not out.exists()


def test_damage_is_reported_or_fails(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(kafkafmt.DamagedLogError):
        kafkafmt.export(TORN, out, engine="local", on_error="fail")
    assert list(tmp_path.iterdir()) == []
    done = command("export", TORN, "-O", out, "--engine", "local")
    assert done.returncode == 1
    assert "DAMAGE" in done.stdout
    assert done.stdout.endswith(f"Parquet     {out}\nreport      {out}.report.json\n")
    assert "quarantine" not in done.stdout
    assert pq.read_table(out).num_rows > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--resume"], "--resume needs a directory"),
        (["--partition-by", "day"], "--partition-by needs a directory"),
        (["--join-small"], "--join-small needs a directory"),
    ],
)
def test_options_for_directories_are_refused(tmp_path: Path, options: list[str], words: str) -> None:
    done = command("export", CODECS[0], "-O", tmp_path / "out.parquet", *options)
    assert done.returncode == 2
    assert words in done.stderr
    with pytest.raises(OutputPlaceError, match="can only be written locally"):
        kafkafmt.export(CODECS, "s3://bucket/out.parquet", engine="local")
