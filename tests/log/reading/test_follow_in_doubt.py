"""Test that following with read_committed omits the same transactions as reading, if their end cannot be read."""

from __future__ import annotations

from pathlib import Path

from building import CONTROL, TRANSACTIONAL, batch, control_batch, record, simple_batch
from selecting import COMMITTED

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading.follow import Follower


def test_transaction_in_doubt_is_omitted_and_reported_by_follow(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / f"{0:020}.log"
    log.write_bytes(simple_batch([b"0"], 0))
    messages: list[str] = []
    follower = Follower(discover([folder]).partitions[0], [folder], COMMITTED, tell=messages.append)
    assert [r.offset for r in follower.records()] == [0]
    marker = record(0, 0, b"\0", b"")  # too short to contain the version and the type of a marker
    parts = [
        simple_batch([b"1", b"2"], 1, flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0),
        batch([marker], base_offset=3, flags=TRANSACTIONAL | CONTROL, producer_id=7, producer_epoch=0),
        simple_batch([b"4"], 4, flags=TRANSACTIONAL, producer_id=8, producer_epoch=0, base_sequence=0),
        control_batch(1, base_offset=5, producer_id=8),
        simple_batch([b"6"], 6),
    ]
    with log.open("ab") as file:
        file.write(b"".join(parts))
    follower.check(always=True)
    assert [r.offset for r in follower.records()] == [4, 6]
    whole = PartitionLog(discover([folder]).partitions[0])
    assert [r.offset for r in whole.records(COMMITTED.resolve(whole))] == [0, 4, 6]
    assert any("producer 7" in line for line in messages), messages
