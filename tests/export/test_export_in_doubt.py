"""Test that exports report transactions in doubt, with exit code 1, as `cat` does."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from building import batch, control_batch, record
from command import inside
from command import process as kafkafmt
from exporting import RunExport, read_with_pyarrow

from kafkafmt.log.transactions.transactions import TransactionInDoubtError

pytestmark = pytest.mark.slow

TRANSACTIONAL = 0x10
COMMIT = 1
PRODUCER_ID = 7


def sent(base: int) -> bytes:
    return batch(
        [record(i) for i in range(2)],
        base_offset=base,
        attributes=TRANSACTIONAL,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
    )


def plain(base: int) -> bytes:
    return batch([record(i) for i in range(2)], base_offset=base)


def marker(base: int) -> bytes:
    return control_batch(COMMIT, base_offset=base, producer_id=PRODUCER_ID, producer_epoch=0)


def damaged(data: bytes) -> bytes:
    corrupted = bytearray(data)
    corrupted[-3] ^= 1
    return bytes(corrupted)


def log(folder: Path, **segments: bytes) -> Path:
    (folder / "log" / "t-0").mkdir(parents=True)
    for name, data in segments.items():
        (folder / "log" / "t-0" / f"{int(name[2:]):020}.log").write_bytes(data)
    return folder / "log"


LOGS = {
    "damage": {"at0": plain(0) + sent(2) + damaged(marker(4)) + sent(5) + marker(7) + plain(8)},
    "a missing segment": {"at0": plain(0) + sent(2), "at5": sent(5) + marker(7) + plain(8)},
}


@pytest.mark.parametrize("hidden_by", LOGS)
@pytest.mark.parametrize(("offsets", "expected"), [(":", [0, 1, 5, 6, 8, 9]), (":4", [0, 1]), ("3:8", [5, 6])])
def test_export_names_transactions_in_doubt(
    run_export: RunExport, tmp_path: Path, hidden_by: str, offsets: str, expected: list[int]
) -> None:
    path = log(tmp_path, **LOGS[hidden_by])
    messages: list[str] = []
    report, out = run_export([path], offsets=offsets, isolation="read_committed", tell=messages.append)
    assert sorted(read_with_pyarrow(out / "data")["offset"].to_pylist()) == expected
    assert not report["ok"]
    assert report["in_doubt"] == {"transactions": 1}
    (doubt,) = report["partitions"][0]["in_doubt"]
    assert (doubt["producer_id"], doubt["first_offset"], doubt["last_offset"]) == (7, 2, 3)
    assert doubt["hidden_by"] == hidden_by
    assert f"t-0: {doubt['message']}" in messages
    assert inside("cat", path, "--isolation", "read_committed", "-o", offsets, "--on-error", "skip").returncode == 1


@pytest.mark.parametrize("hidden_by", LOGS)
def test_export_names_no_transaction_if_all_its_records_are_outside_the_range(
    run_export: RunExport, tmp_path: Path, hidden_by: str
) -> None:
    path = log(tmp_path, **LOGS[hidden_by])
    report, out = run_export([path], offsets="8:", isolation="read_committed")
    assert sorted(read_with_pyarrow(out / "data")["offset"].to_pylist()) == [8, 9]
    assert report["ok"]
    assert report["in_doubt"] == {"transactions": 0}
    assert inside("cat", path, "--isolation", "read_committed", "-o", "8:", "--on-error", "skip").returncode == 0


def test_export_at_read_uncommitted_names_no_transaction(run_export: RunExport, tmp_path: Path) -> None:
    report, _ = run_export([log(tmp_path, **LOGS["a missing segment"])])
    (partition,) = report["partitions"]
    assert [damage["error"] for damage in partition["quarantined"]["damaged"]] == ["missing_segment"]
    assert report["in_doubt"] == {"transactions": 0}


def test_export_reports_where_an_open_transaction_starts(run_export: RunExport, tmp_path: Path) -> None:
    messages: list[str] = []
    report, out = run_export(
        [log(tmp_path, at0=plain(0) + sent(2) + plain(4))], isolation="read_committed", tell=messages.append
    )
    assert report["ok"]
    assert sorted(read_with_pyarrow(out / "data")["offset"].to_pylist()) == [0, 1]
    assert messages == [
        "t-0: records from offset 2 on are not delivered at read_committed: producer 7 has an open transaction there"
    ]


def test_export_in_fail_mode_fails_for_transactions_in_doubt(run_export: RunExport, tmp_path: Path) -> None:
    path = log(tmp_path, **LOGS["a missing segment"])
    with pytest.raises(
        TransactionInDoubtError, match=r"t-0: a missing segment may hide how producer 7's transaction ended"
    ) as caught:
        run_export([path], isolation="read_committed", on_error="fail", offsets=":4")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert not (tmp_path / "out").exists()


def test_command_prints_transactions_in_doubt_and_exits_with_1(tmp_path: Path) -> None:
    path = log(tmp_path, **LOGS["damage"])
    done = kafkafmt(
        "export",
        path,
        "--output",
        tmp_path / "out",
        "--isolation",
        "read_committed",
        "-o",
        ":4",
        "--master",
        "local[1]",
    )
    assert done.returncode == 1
    assert (
        "DOUBT   t-0: damage may hide how producer 7's transaction ended: its records at offsets 2 to 3 are omitted"
        in done.stdout
    )


def test_resumed_export_reports_transactions_that_an_earlier_run_omitted(run_export: RunExport, tmp_path: Path) -> None:
    """Later runs cannot add the omitted records, although the repaired log contains the transaction marker."""
    root = log(tmp_path, **LOGS["damage"])
    options: dict[str, Any] = {"isolation": "read_committed", "resume": True, "engine": "local"}
    report, out = run_export([root], offsets=":6", **options)
    assert report["in_doubt"]["transactions"] == 1
    (root / "t-0" / f"{0:020}.log").write_bytes(plain(0) + sent(2) + marker(4) + sent(5) + marker(7) + plain(8))
    for _ in range(2):
        report, _ = run_export([root], **options)
        (message,) = report["skipped"]["messages"]
        assert "t-0: an earlier run omitted the records of producer 7 at offsets 2 to 3" in message
        assert report["ok"]
    assert sorted(read_with_pyarrow(out / "data")["offset"].to_pylist()) == [0, 1, 5, 6, 8, 9]
