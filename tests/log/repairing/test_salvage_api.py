"""Test `kafkafmt.salvage`. Its copy and report equal those of the command. A failure leaves no output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building import TRANSACTIONAL, simple_batch
from command import inside
from golden_cases import case
from salvaging import NAME, corrupt, data, partition

import kafkafmt


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a log directory with a valid partition, and a damaged partition with an open transaction."""
    partition(tmp_path / "in", data(0), data(1), name="a-0")
    partition(tmp_path / "in", data(0), corrupt(data(1)), data(2, 7), data(3, 7), name="b-0")
    return tmp_path / "in"


def tree(root: Path) -> dict[str, bytes]:
    """Return the contents of all files under `root`."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("options", [{}, {"stop_at_first": True}, {"abort_open_transactions": True}])
@pytest.mark.parametrize("name", ["torn", "transactions"])
def test_report_and_copy_equal_those_of_the_command(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    roots = case(name).roots
    flags = [f"--{option.replace('_', '-')}" for option in options]
    done = inside("salvage", *roots, "--output", tmp_path / "command", *flags, "--format", "json")
    report = kafkafmt.salvage(roots, tmp_path / "library", **options)
    assert report.to_dict() == json.loads(done.stdout)
    assert report.exit_code == done.returncode
    if "abort_open_transactions" not in options:  # without this, markers would contain the current time
        assert tree(tmp_path / "library") == tree(tmp_path / "command")


def test_report_describes_source_and_copy(source: Path, tmp_path: Path) -> None:
    report = kafkafmt.salvage(source, tmp_path / "out", abort_open_transactions=True)
    assert isinstance(report, kafkafmt.reports.SalvageReport)
    assert report.output == tmp_path / "out"
    valid, damaged = report.partitions
    assert (valid.topic, valid.partition, valid.source.ok) == ("a", 0, True)
    assert Path(damaged.path) == tmp_path / "out" / "b-0"
    assert (damaged.segments, damaged.batches, damaged.next_offset) == (2, 4, 5)  # an abort marker at offset 4
    (transaction,) = damaged.open_transactions
    assert isinstance(transaction, kafkafmt.reports.OpenTransaction)
    assert (transaction.first_offset, transaction.aborted_at, transaction.remedy) == (2, 4, None)
    assert (report.ok, report.exit_code) == (False, 1)
    assert kafkafmt.verify(tmp_path / "out").ok
    assert "b-0" in report._repr_html_()


def test_open_transactions_are_a_sequence_that_can_be_sliced(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    batches = [simple_batch([b"v"], i, flags=TRANSACTIONAL, producer_id=i, producer_epoch=0) for i in range(4)]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    (partition,) = kafkafmt.salvage(folder, tmp_path / "out").partitions
    found = partition.open_transactions
    assert [(t.topic, t.producer_id, t.first_offset, t.cause) for t in found] == [("t", i, i, "open") for i in range(4)]
    assert (found[1:3], found[-1], found) == (list(found)[1:3], list(found)[3], tuple(found))


def test_topics_select_what_is_salvaged(source: Path, tmp_path: Path) -> None:
    report = kafkafmt.salvage(source, tmp_path / "out", topics="a")
    assert ([p.topic for p in report.partitions], report.ok) == (["a"], True)
    with pytest.raises(kafkafmt.PartitionNotFoundError):
        kafkafmt.salvage(source, tmp_path / "other", topics="z")
    assert not (tmp_path / "other").exists()


def test_progress_counts_all_bytes_twice(source: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    kafkafmt.salvage(source, tmp_path / "out", progress=lambda done, total: calls.append((done, total)))
    size = sum(p.stat().st_size for p in source.rglob("*.log"))
    assert (calls[0], calls[-1]) == ((0, 2 * size), (2 * size, 2 * size))
    assert calls == sorted(calls)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConnectionError, ValueError])
def test_error_of_a_callback_leaves_no_output(error: type[BaseException], source: Path, tmp_path: Path) -> None:
    def fail(done: int, _: int) -> None:
        if done:
            raise error

    with pytest.raises(error):
        kafkafmt.salvage(source, tmp_path / "out", progress=fail)
    assert not (tmp_path / "out").exists()


def test_output_that_cannot_be_used_raises(source: Path, tmp_path: Path) -> None:
    for output, message in (
        (source, "contains .*/a-0, which is an input"),
        (source / "a-0" / "copy", "is inside"),
        (source / "copy", "is inside"),
    ):
        with pytest.raises(kafkafmt.OutputPlaceError, match=message) as caught:
            kafkafmt.salvage(source, output)
        assert (isinstance(caught.value, ValueError), caught.value.output) == (True, str(output))
    (tmp_path / "file").write_text("text")
    with pytest.raises(kafkafmt.OutputPlaceError, match="is not a directory"):
        kafkafmt.salvage(source, tmp_path / "file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("text")
    with pytest.raises(FileExistsError, match="not empty"):
        kafkafmt.salvage(source, tmp_path / "full")
    assert (tmp_path / "full" / "file").read_text() == "text"


def test_partition_with_a_name_that_no_broker_accepts_is_unreadable(source: Path, tmp_path: Path) -> None:
    partition(source, data(0), name="not valid!-0")
    messages: list[str] = []
    report = kafkafmt.salvage(source, tmp_path / "out", on_message=messages.append)
    (omitted,) = report.unreadable
    assert (omitted.topic, report.exit_code) == ("not valid!", 3)
    assert "rename the directory" in omitted.error
    assert messages == list(report.messages)
    assert [p.topic for p in report.partitions] == ["a", "b"]
    assert (tmp_path / "out" / "a-0" / NAME).read_bytes() == (source / "a-0" / NAME).read_bytes()
