"""Test `kafkafmt.dump`, which yields typed items for all files of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import batch, record
from golden_cases import case

import kafkafmt
from kafkafmt.log.inspecting import dump_items


def kinds(path: Path, **options: object) -> dict[str, list[dump_items.Item]]:
    """Return the items of all files, by the names of their classes."""
    found: dict[str, list[dump_items.Item]] = {}
    for file in kafkafmt.dump(path, **options):  # type: ignore[arg-type]
        for item in file:
            found.setdefault(type(item).__name__, []).append(item)
    return found


def test_directory_yields_items_of_all_kinds() -> None:
    folder = case("transactions").partition_dir("tx", 0)
    found = kinds(folder, deep=True)
    assert {
        "DumpedBatch",
        "DumpedRecord",
        "OffsetIndexEntry",
        "TimeIndexEntry",
        "TransactionIndexEntry",
    } <= found.keys()
    assert "DumpedProducer" in found
    records = [r for r in found["DumpedRecord"] if isinstance(r, dump_items.DumpedRecord)]
    log = kafkafmt.open(folder)["tx", 0]
    assert [(r.offset, r.key, r.value) for r in records] == [
        (r.offset, r.key, r.value) for r in log.records(control=True)
    ]
    assert any(r.control is not None for r in records)
    assert "DumpedRecord" not in kinds(folder)


def test_damage_is_an_item_and_reading_continues(tmp_path: Path) -> None:
    batches = [batch([record(0)], base_offset=i) for i in range(3)]
    batches[1] = batches[1][:-1] + b"?"
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    items = list(next(kafkafmt.dump(path)))
    assert [i.is_valid for i in items if isinstance(i, dump_items.DumpedBatch)] == [True, False, True]
    (problem,) = [i for i in items if isinstance(i, dump_items.Problem)]
    assert (problem.kind, problem.code, problem.position) == ("damage", "corrupt_checksum", len(batches[0]))


def test_index_can_be_checked_alone_or_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.index"
    (tmp_path / f"{0:020}.log").write_bytes(batch([record(0)]))
    path.write_bytes(b"\0\0\0\5\0\0\0\7")
    (entry, problem) = next(kafkafmt.dump(path))
    assert entry == dump_items.OffsetIndexEntry(5, 7)
    assert isinstance(problem, dump_items.Problem)
    assert list(next(kafkafmt.dump(path, indexes="findings"))) == [problem]
    assert list(next(kafkafmt.dump(path, indexes="sanity"))) == [dump_items.SaneIndex(path)]


def test_wrong_arguments_and_unknown_files_raise(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("text")
    with pytest.raises(kafkafmt.NoLogError, match="this kind of file cannot be dumped"):
        list(kafkafmt.dump(tmp_path / "README.md"))
    with pytest.raises(kafkafmt.NoLogError, match="contains no file"):
        list(kafkafmt.dump(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(kafkafmt.dump(tmp_path / "none.log"))
    with pytest.raises(ValueError, match="indexes"):
        list(kafkafmt.dump(tmp_path, indexes="all"))
    with pytest.raises(ValueError, match="max_bytes"):
        list(kafkafmt.dump(tmp_path, max_bytes=-1))
