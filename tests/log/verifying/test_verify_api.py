"""Test `kafkafmt.verify` and `kafkafmt.describe`. Their reports are typed, and equal those of the command."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from building import batch, record
from command import inside
from golden_cases import case
from patching import patch_everywhere

import kafkafmt
from kafkafmt.log.storage import file_view
from kafkafmt.log.storage.file_view import FileView

SEGMENT = f"{0:020}.log"


def write_log(root: Path, *names: str, batches: int = 3) -> Path:
    """Write partitions with `batches` batches, each of one record."""
    for name in names:
        (root / name).mkdir(parents=True)
        data = b"".join(batch([record(0, value=b"value %d" % i)], base_offset=i) for i in range(batches))
        (root / name / SEGMENT).write_bytes(data)
    return root


def damage(partition: Path, position: int = 145) -> None:
    """Change one byte of a batch."""
    data = bytearray((partition / SEGMENT).read_bytes())
    data[position] ^= 1
    (partition / SEGMENT).write_bytes(data)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    root = write_log(tmp_path / "logs", "a-0", "a-1", "b-0")
    damage(root / "a-1")
    return root


@pytest.mark.parametrize("name", ["torn", "transactions", "compacted", "delete-records"])
@pytest.mark.parametrize("options", [{}, {"shallow": True}, {"strict": True}])
def test_report_equals_that_of_the_command(name: str, options: dict[str, Any]) -> None:
    roots = case(name).roots
    report = kafkafmt.verify(roots, **options)
    done = inside("verify", *roots, *(f"--{option}" for option in options), "--format", "json")
    assert report.to_dict() == json.loads(done.stdout)
    assert report.exit_code == done.returncode
    assert report.ok == (done.returncode == 0)


def test_report_is_typed_and_frozen(logs: Path) -> None:
    report = kafkafmt.verify(logs)
    assert isinstance(report, kafkafmt.reports.VerifyReport)
    valid, damaged, _ = report.partitions
    assert (valid.topic, valid.partition, valid.ok, valid.records_lost) == ("a", 0, True, 0)
    (span,) = damaged.damaged
    assert isinstance(span, kafkafmt.Damage)
    assert (span.first_offset, span.last_offset) == (1, 1)
    assert (damaged.records_recovered, damaged.ok, report.ok, report.exit_code) == (2, False, False, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.strict = True  # type: ignore[misc]


def test_topics_and_partitions_select_what_is_verified(logs: Path) -> None:
    assert [p.topic for p in kafkafmt.verify(logs, topics="b*").partitions] == ["b"]
    assert [p.partition for p in kafkafmt.verify(logs, topics=["a", "c"], partitions=1).partitions] == [1]
    report = kafkafmt.verify(logs, topics=["a", "c"])
    assert report.messages == ("no topic matches 'c': the existing topics are a and b",)


def test_selection_that_matches_nothing_raises_lookup_error(logs: Path) -> None:
    for function in (kafkafmt.verify, kafkafmt.describe):
        with pytest.raises(kafkafmt.PartitionNotFoundError, match="a has no partition 7") as error:
            function(logs, topics="a", partitions=[7])
        assert isinstance(error.value, LookupError)
        assert error.value.missing == ("a has no partition 7: the existing partitions are 0 and 1",)


def test_open_log_is_verified_like_its_paths(logs: Path) -> None:
    assert kafkafmt.verify(kafkafmt.open(logs)) == kafkafmt.verify(logs)
    assert kafkafmt.describe(kafkafmt.open(logs)) == kafkafmt.describe([str(logs)])


def test_findings_fail_only_if_strict(tmp_path: Path) -> None:
    path = write_log(tmp_path, "t-0") / "t-0" / SEGMENT
    path.write_bytes(path.read_bytes()[:-5])
    report = kafkafmt.verify(tmp_path)
    assert [f.code for f in report.partitions[0].findings] == ["unfinished_tail"]
    assert (report.ok, report.exit_code) == (True, 0)
    strict = kafkafmt.verify(tmp_path, strict=True)
    assert (strict.ok, strict.exit_code, strict.partitions) == (False, 1, report.partitions)


def test_sizes_of_segments_are_read_only_for_progress(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a compressed segment is its size after decompression."""
    read: list[str] = []
    content_size = file_view.content_size

    def counting(path: str) -> int | None:
        read.append(path)
        return content_size(path)

    patch_everywhere(monkeypatch, file_view.content_size, counting)
    kafkafmt.verify(logs)
    assert not read
    kafkafmt.verify(logs, progress=lambda done, total: None)
    assert len(read) == 3


@pytest.mark.parametrize("function", [kafkafmt.verify, kafkafmt.describe])
def test_progress_counts_all_bytes(function: Any, logs: Path) -> None:
    calls: list[tuple[int, int]] = []
    function(logs, progress=lambda done, total: calls.append((done, total)))
    size = sum(p.stat().st_size for p in logs.rglob("*.log"))
    assert calls[0] == (0, size)
    assert calls[-1] == (size, size)
    assert calls == sorted(calls)


def test_error_of_a_callback_is_raised_unchanged(logs: Path) -> None:
    error = BrokenPipeError("the progress output is closed")

    def fail(done: int, _: int) -> None:
        if done:
            raise error

    with pytest.raises(BrokenPipeError) as caught:
        kafkafmt.verify(logs, progress=fail)
    assert caught.value is error


@pytest.fixture
def unreadable(logs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    read_into = FileView.read_into

    def read(self: FileView, view: Any, position: int) -> Any:
        if "a-0" in str(self.path):
            raise OSError(errno.EIO, "Input/output error", str(self.path))
        return read_into(self, view, position)

    monkeypatch.setattr(FileView, "read_into", read)
    return logs


def test_unreadable_partition_does_not_end_the_run(unreadable: Path) -> None:
    messages: list[str] = []
    report = kafkafmt.verify(unreadable, on_message=messages.append)
    assert [p.partition for p in report.partitions] == [1, 0]
    why = f"{unreadable / 'a-0' / SEGMENT}: Input/output error"
    assert report.unreadable == (kafkafmt.reports.UnreadablePartition("a", 0, str(unreadable / "a-0"), why),)
    assert (report.ok, report.exit_code) == (False, 3)
    assert messages == list(report.messages) == [f"a-0 cannot be read: {why}"]
    assert report.to_dict() == json.loads(inside("verify", unreadable, "--format", "json").stdout)
    listed = kafkafmt.describe(unreadable)
    assert (listed.exit_code, listed.unreadable) == (3, report.unreadable)


def test_wrong_arguments_raise(logs: Path) -> None:
    for arguments, options, error in (
        ((), {}, TypeError),
        (([],), {}, TypeError),
        ((7,), {}, TypeError),
        (([logs, 7],), {}, TypeError),
        ((logs,), {"threads": 0}, ValueError),
        ((logs,), {"max_batch_bytes": 0}, ValueError),
        ((logs,), {"replicas": "shortest"}, ValueError),
        ((logs,), {"partitions": "0"}, TypeError),
        ((logs / "none",), {}, FileNotFoundError),
    ):
        with pytest.raises(error):
            kafkafmt.verify(*arguments, **options)


def test_replicas_raise_unless_the_longest_is_chosen(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "copy")
    with pytest.raises(kafkafmt.DuplicatePartitionError):
        kafkafmt.verify([logs, tmp_path / "copy"])
    assert len(kafkafmt.verify([logs, tmp_path / "copy"], replicas="longest").partitions) == 3


@pytest.mark.parametrize("name", ["jbod", "transactions", "epochs", "codecs", "delete-records", "torn"])
def test_description_equals_that_of_ls(name: str) -> None:
    roots = case(name).roots
    found = kafkafmt.describe(roots)
    done = inside("ls", *roots, "--format", "json")
    assert found.to_dict() == json.loads(done.stdout)
    assert found.exit_code == done.returncode


def test_reports_have_html_for_notebooks(unreadable: Path) -> None:
    (unreadable / "b-0").rename(unreadable / "<b>-0")
    for report in (kafkafmt.verify(unreadable), kafkafmt.describe(unreadable)):
        html = report._repr_html_()
        assert "&lt;b&gt;-0" in html
        assert "<b>" not in html
    partition = kafkafmt.verify(unreadable).partitions[1]
    assert "corrupt_checksum" in partition._repr_html_()
