"""Check that the requested columns do not affect which records are valid."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import source_rows
from building import batch, record, sized, varint

import kafkafmt
from kafkafmt.log import PartitionLog, discover

NULL = varint(-1)
COLUMNS = (
    ("offset",),
    ("offset", "timestamp"),
    ("offset", "key"),
    ("offset", "key", "value"),
    ("offset", "key", "value", "headers"),
)
CORRUPTED = {
    "key length": sized(b"\x00\x00\x02" + varint(99) + b"abc"),
    "value length": sized(b"\x00\x00\x02" + NULL + varint(99) + b"abc"),
    "header count": record(1, 0, b"k", b"v", [(b"h", b"x")], header_count=2),
    "no headers counted": record(1, 0, b"k", b"v", [(b"h", b"x")], header_count=0),
    "bytes after the headers": record(1, 0, b"k", b"v", [(b"h", b"x")], extra=b"more"),
}


@pytest.fixture(params=CORRUPTED)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a log directory in which the second of three batches has a valid CRC and a corrupted record."""
    fine, bad = record(0, 0, b"k", b"v" * 60), CORRUPTED[request.param]
    batches = batch([fine]), batch([fine, bad], base_offset=1), batch([fine], base_offset=3)
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    return tmp_path / "logs"


@pytest.mark.parametrize("columns", COLUMNS, ids="+".join)
def test_records_do_not_depend_on_the_columns(package: object, directory: Path, columns: tuple[str, ...]) -> None:
    partition = kafkafmt.open(directory)["t", 0]
    (damage,) = kafkafmt.verify(directory).partitions[0].damaged
    assert (damage.first_offset, damage.last_offset) == (1, 2)
    assert partition.to_arrow(columns, on_error="skip")["offset"].to_pylist() == [0, 3]
    found: list[object] = []
    log = PartitionLog(discover([directory]).partitions[0])
    chunks = log.chunks(columns, on_damage=found.append)
    assert [o for c in chunks for o in c.columns.offset[: c.columns.rows].tolist()] == [0, 3]  # type: ignore[index]
    assert found == [damage]
    with pytest.raises(kafkafmt.DamagedLogError):
        partition.to_arrow(columns)


@pytest.mark.parametrize("columns", COLUMNS, ids="+".join)
def test_polars_rows_do_not_depend_on_the_columns(directory: Path, columns: tuple[str, ...]) -> None:
    frame = kafkafmt.scan_polars(directory, on_error="skip").select(columns)
    with pytest.warns(RuntimeWarning, match="are omitted"):
        assert frame.collect()["offset"].to_list() == [0, 3]


@pytest.mark.parametrize("columns", COLUMNS, ids="+".join)
def test_rows_of_the_data_source_do_not_depend_on_the_columns(directory: Path, columns: tuple[str, ...]) -> None:
    assert source_rows.read(directory, columns)["offset"].to_pylist() == [0, 3]
    with pytest.raises(kafkafmt.DamagedLogError):
        source_rows.read(directory, columns, mode="FAILFAST")


@pytest.mark.parametrize("columns", COLUMNS, ids="+".join)
def test_exported_rows_do_not_depend_on_the_columns(directory: Path, tmp_path: Path, columns: tuple[str, ...]) -> None:
    report = kafkafmt.export(directory, tmp_path / "out", engine="local", columns=columns)
    assert [(d.first_offset, d.last_offset) for d in report.partitions[0].quarantined.damaged] == [(1, 2)]
    assert pq.read_table(tmp_path / "out" / "data")["offset"].to_pylist() == [0, 3]
