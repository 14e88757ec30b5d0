"""Test `kafkafmt.rewrite` with golden logs and random logs, compared with models of its rules."""

from __future__ import annotations

import os
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from building import COMMIT, ZSTD, batch, control_batch, record
from command import inside, kafkafmt
from golden_cases import CASES, LEGACY, Case, case
from rewriting import Row, batches, compacted, rows, write_random_log
from salvaging import abort, corrupt, data, partition
from writing import FIRST

import kafkafmt as k
from kafkafmt.log.rewriting import rewrite_partition
from kafkafmt.log.rewriting.filtered_batch import empty_batch
from kafkafmt.typing import Codec

VALID = [c for c in [*CASES, *LEGACY] if not c.torn and not re.search("truncated|unclean|nested", c.name)]


def sources(golden: Case) -> Any:
    return [p for p in k.open(golden.roots) if not p.topic.startswith("__")]


def findings(root: Path, topic: str) -> list[str]:
    return [f.code for p in k.verify(root).partitions if p.topic == topic for f in p.findings]


def check_unchanged_batches(source: Path, copy: Path, lost: set[int]) -> None:
    """Assert that each batch without a lost record is byte for byte equal in both partition directories."""
    before, after = batches(source), batches(copy)
    start = 0
    for last, bytes_before in sorted(before.items()):
        if not lost & set(range(start, last + 1)):
            assert after.get(last) == bytes_before, last
        start = last + 1


@pytest.mark.parametrize("golden", VALID, ids=str)
@pytest.mark.slow
def test_golden_log_loses_exactly_the_matching_records(golden: Case, tmp_path: Path) -> None:
    pattern, out = re.compile(rb"[02468]\b|a"), tmp_path / "out"
    report = k.rewrite(golden.roots, out, drop_key_regex=pattern)
    log, counts = k.open(out), {(p.topic, p.partition): p for p in report.partitions}
    for source in sources(golden):
        copy, lost = log[source.topic, source.partition], set[int]()
        for isolation in ("read_uncommitted", "read_committed"):
            before = rows(source, isolation=isolation)
            stays = {o: r for o, r in before.items() if r[1] is None or not pattern.search(r[1])}
            assert rows(copy, isolation=isolation) == stays
            lost |= before.keys() - stays.keys()
        assert (copy.next_offset, copy.last_stable_offset) == (source.next_offset, source.last_stable_offset)
        assert copy.log_start_offset == source.log_start_offset
        made = counts[source.topic, source.partition]
        assert made.records_in - made.records_out >= len(lost)
        if source.log_start_offset == 0:
            folder = golden.partition_dir(source.topic, source.partition)
            check_unchanged_batches(folder, out / folder.name, lost)
        assert findings(out, source.topic) == []


@pytest.mark.parametrize("golden", [c for c in VALID if "compacted" in c.name or "trans" in c.name], ids=str)
def test_compaction_of_a_golden_log_keeps_the_latest_records(golden: Case, tmp_path: Path) -> None:
    k.rewrite(golden.roots, tmp_path / "out", compact=True)
    log = k.open(tmp_path / "out")
    for source in sources(golden):
        copy = log[source.topic, source.partition]
        uncommitted, committed = compacted(source, lambda _: False, False)
        assert rows(copy) == uncommitted
        assert rows(copy, isolation="read_committed") == committed
        assert (copy.next_offset, copy.last_stable_offset) == (source.next_offset, source.last_stable_offset)
        assert findings(tmp_path / "out", source.topic) == []


@pytest.mark.parametrize("seed", range(12))
def test_random_log_is_rewritten_as_the_model_predicts(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    root = write_random_log(tmp_path / "in", chance)
    (source,) = k.open(root)
    keys, before = [b"key-3", b"key-7"], FIRST + 300 if chance.random() < 0.5 else None
    compact, tombstones = chance.random() < 0.6, chance.random() < 0.5

    def drop(row: Row) -> bool:
        return row[1] in keys or (before is not None and row[0] < before)

    options: dict[str, Any] = {"compact": compact, "drop_tombstones": compact and tombstones}
    if chance.random() < 0.3:
        options |= {"codec": chance.choice(("none", "zstd", "gzip"))}
    k.rewrite(root, tmp_path / "out", drop_keys=keys, before_time=before, **options)
    (copy,) = k.open(tmp_path / "out")
    if compact:
        expected = compacted(source, drop, tombstones)
    else:
        both = rows(source), rows(source, isolation="read_committed")
        first, second = ({o: r for o, r in found.items() if not drop(r)} for found in both)
        expected = first, second
    assert rows(copy) == expected[0]
    assert rows(copy, isolation="read_committed") == expected[1]
    assert (copy.next_offset, copy.last_stable_offset) == (source.next_offset, source.last_stable_offset)
    assert k.verify(tmp_path / "out").partitions[0].findings == ()
    if "codec" not in options:
        lost = rows(source).keys() - rows(copy).keys()
        check_unchanged_batches(root / "t-0", tmp_path / "out" / "t-0", set(lost))
    check_producers(root / "t-0", tmp_path / "out")


def check_producers(source: Path, out: Path) -> None:
    """Assert that recovery without snapshots finds the same sequence number for each producer."""

    def sequences(folder: Path) -> dict[int, tuple[int, int]]:
        found = {}
        for last, raw in sorted(batches(folder).items()):
            producer = int.from_bytes(raw[43:51], "big", signed=True)
            if producer >= 0 and not raw[22] & 0x20:
                delta = int.from_bytes(raw[23:27], "big")
                found[producer] = int.from_bytes(raw[53:57], "big") + delta, last
        return found

    assert sequences(out / "t-0") == sequences(source)


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_recompressed_golden_log_has_the_same_records(codec: Codec, tmp_path: Path) -> None:
    golden = case("codecs")
    k.rewrite(golden.roots, tmp_path / "out", codec=codec)
    for p in sources(golden):
        assert rows(k.open(tmp_path / "out")[p.topic, p.partition]) == rows(p)
    used = {c for p in k.describe(tmp_path / "out").partitions for c in p.codecs}
    assert used == {codec}


def test_recompression_keeps_batches_that_have_the_codec(tmp_path: Path) -> None:
    two = batch([record(0, value=b"x" * 99)], codec=ZSTD) + batch([record(0, value=b"y" * 99)], base_offset=1)
    folder = partition(tmp_path / "in", two)
    k.rewrite(tmp_path / "in", tmp_path / "out", codec="zstd")
    before, after = batches(folder), batches(tmp_path / "out" / "t-0")
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_zstd_leaves_messages_of_old_formats_unchanged(tmp_path: Path) -> None:
    golden = next(c for c in LEGACY if c.name == "0.10.2.2-codecs")
    k.rewrite(golden.roots, tmp_path / "out", codec="zstd")
    for p in sources(golden):
        folder = golden.partition_dir(p.topic, p.partition)
        assert batches(tmp_path / "out" / folder.name) == batches(folder)


def test_last_batch_of_a_producer_and_of_the_log_become_empty(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1}
    first = batch([record(0, key=b"a"), record(1, key=b"a")], base_sequence=0, **fields)
    second = batch([record(0, key=b"a"), record(1, key=b"a")], base_offset=2, base_sequence=2, **fields)
    third = batch([record(0, key=b"a")], base_offset=4)
    partition(tmp_path / "in", first, second, third)
    k.rewrite(tmp_path / "in", tmp_path / "out", drop_keys="a")
    after = batches(tmp_path / "out" / "t-0")
    assert after == {3: empty_batch(memoryview(second)), 4: empty_batch(memoryview(third))}
    (copy,) = k.open(tmp_path / "out")
    assert (copy.next_offset, rows(copy)) == (5, {})


def test_marker_without_data_is_removed_after_its_delete_horizon(tmp_path: Path) -> None:
    def marker(offset: int, producer: int, horizon: int | None) -> bytes:
        raw = control_batch(COMMIT, base_offset=offset, producer_id=producer, producer_epoch=0)
        return raw if horizon is None else with_horizon(raw, horizon)

    far = 1 << 45
    partition(
        tmp_path / "in",
        marker(0, 1, FIRST),
        marker(1, 2, far),
        marker(2, 3, None),
        marker(3, 1, None),
        marker(4, 2, None),
        marker(5, 3, None),
        batch([record(0, key=b"k")], base_offset=6),
    )
    k.rewrite(tmp_path / "in", tmp_path / "out", compact=True)
    assert sorted(batches(tmp_path / "out" / "t-0")) == [1, 2, 3, 4, 5, 6]


def with_horizon(raw: bytes, horizon: int) -> bytes:
    """Return a batch with a delete horizon, which replaces the base timestamp."""
    import crc32c

    changed = bytearray(raw)
    changed[22] |= 0x40
    changed[27:35] = horizon.to_bytes(8, "big")
    changed[17:21] = crc32c.crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (("key", "hex:ff00"), [0, 2]),
        (("key", "base64:aGV4OmZm"), [0, 1]),
        (("key", "utf8:hex:ff"), [0, 1]),
        (("key", os.fsdecode(b"\xff\0")[:1]), [0, 1, 2]),
        (("key-regex", r"\xff"), [0, 2]),
        (("key-regex", "^.{2}$"), [2]),
    ],
    ids=str,
)
def test_drop_options_select_the_same_records_as_those_of_cat(
    condition: tuple[str, str], left: list[int], tmp_path: Path
) -> None:
    keys = ["ü".encode(), b"\xff\0", b"hex:ff"]
    partition(tmp_path / "in", batch([record(n, 0, key, b"v") for n, key in enumerate(keys)]))
    option, text = condition
    done = inside("rewrite", tmp_path / "in", "--output", tmp_path / "out", f"--drop-{option}", text)
    assert done.returncode == 0, done.stderr
    assert sorted(rows(*k.open(tmp_path / "out"))) == left
    shown = inside("cat", tmp_path / "in", f"--{option}", text, "--format", "%o ").stdout.split()
    assert sorted([*left, *map(int, shown)]) == [0, 1, 2]


def test_segments_keep_their_names_even_if_they_become_empty(tmp_path: Path) -> None:
    for n in range(3):
        partition(tmp_path / "in", batch([record(0, key=b"k%d" % n)], base_offset=n), base=n)
    k.rewrite(tmp_path / "in", tmp_path / "out", drop_keys=["k0", "k1"])
    logs = sorted((tmp_path / "out" / "t-0").glob("*.log"))
    assert [int(f.stem) for f in logs] == [0, 1, 2]
    assert [f.stat().st_size > 0 for f in logs] == [False, False, True]
    assert k.verify(tmp_path / "out").partitions[0].findings == ()


def test_internal_topics_stay_unchanged_unless_they_are_selected(tmp_path: Path) -> None:
    golden = next(c for c in VALID if c.name == "internal")
    k.rewrite(golden.roots, tmp_path / "all", drop_key_regex="")
    k.rewrite(golden.roots, tmp_path / "chosen", drop_key_regex="", topics="__consumer_offsets")
    chosen = 0
    for p in k.open(golden.roots):
        if p.topic.startswith("__") and p.topic != "__cluster_metadata":
            folder = golden.partition_dir(p.topic, p.partition)
            assert batches(tmp_path / "all" / folder.name) == batches(folder)
        if p.topic == "__consumer_offsets":
            chosen += len(rows(p))
            assert rows(k.open(tmp_path / "chosen")[p.topic, p.partition]) == {}
    assert chosen > 0


def damaged_log(root: Path) -> Path:
    return partition(root, data(0), corrupt(data(1), 65), data(2))


def test_internal_topics_can_be_selected_by_an_iterator(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0), name="__own-0")
    (copied,) = k.rewrite(tmp_path / "in", tmp_path / "out", topics=iter(["__own"]), before_time=2**62).partitions
    assert copied.records_out == 0


def test_damage_is_refused_and_names_salvage(tmp_path: Path) -> None:
    damaged_log(tmp_path / "in")
    with pytest.raises(k.DamagedLogError):
        k.rewrite(tmp_path / "in", tmp_path / "out", compact=True)
    done = kafkafmt("rewrite", tmp_path / "in", "--output", tmp_path / "out", "--compact")
    assert (done.returncode, done.stdout) == (1, "")
    assert "kafkafmt salvage" in done.stderr
    assert not (tmp_path / "out").exists()


def test_transaction_that_only_an_index_ends_is_refused_and_names_salvage(tmp_path: Path) -> None:
    with k.LogDirectory(tmp_path / "in", segment_bytes=120) as directory:
        writer = directory.writer("t")
        writer.append([(b"k", bytes(30), 0)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        writer.end_transaction(7, 0, commit=False)
        marker = tmp_path / "in" / "t-0" / f"{writer.segments[-1]:020}.log"
    content = bytearray(marker.read_bytes())
    content[-1] ^= 1
    marker.write_bytes(content)
    done = inside("rewrite", tmp_path / "in", "--output", tmp_path / "out", "--codec", "lz4", "--on-error", "skip")
    assert done.returncode == 1
    assert done.stderr.endswith("; run `kafkafmt salvage` first, and rewrite its output\n")
    assert not (tmp_path / "out").exists()
    k.salvage(tmp_path / "in", tmp_path / "salvaged")
    k.rewrite(tmp_path / "salvaged", tmp_path / "out", codec="lz4")
    copy = k.open(tmp_path / "out")["t", 0]
    assert [r.offset for r in copy] == [0]
    assert list(copy.records(isolation="read_committed")) == []


def test_damage_before_an_abort_marker_is_skipped_on_request(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), b"\xff" * 80, abort(2), data(3), index=[(7, 0, 2, 3)])
    k.rewrite(tmp_path / "in", tmp_path / "out", codec="lz4", on_error="skip")
    copy = k.open(tmp_path / "out")["t", 0]
    assert [r.offset for r in copy.records(control=True)] == [0, 2, 3]
    assert [r.offset for r in copy.records(isolation="read_committed")] == [3]


def test_damage_is_skipped_on_request(tmp_path: Path) -> None:
    damaged_log(tmp_path / "in")
    done = inside("rewrite", tmp_path / "in", "--output", tmp_path / "out", "--on-error", "skip", "--format", "json")
    assert done.returncode == 1
    assert '"damaged": 1' in done.stdout
    assert sorted(rows(*k.open(tmp_path / "out"))) == [0, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_key_regex": "("}, "drop_key_regex: '(' is not a valid regular expression"),
        ({"drop_key_regex": re.compile("a")}, "drop_key_regex: a compiled pattern must be a pattern of bytes"),
        ({"drop_keys": [1]}, "drop_keys must contain str or bytes"),
        ({"drop_tombstones": True}, "compact is False"),
        ({"level": 3}, "codec is None"),
        ({"codec": "brotli"}, "codec is 'brotli'"),
        ({"before_time": "soon"}, "before_time: 'soon' is not a time"),
        ({"on_error": "stop"}, "on_error is 'stop'"),
    ],
)
def test_wrong_argument_is_refused_before_anything_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    partition(tmp_path / "in", data(0))
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        k.rewrite(tmp_path / "in", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_drop_tombstones_requires_compact(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0))
    done = inside("rewrite", tmp_path / "in", "--output", tmp_path / "out", "--drop-tombstones")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--drop-tombstones requires --compact" in done.stderr


def test_command_prints_counts_and_refuses_a_full_directory(tmp_path: Path) -> None:
    partition(tmp_path / "in", batch([record(0, key=b"a"), record(1, key=b"b")]))
    arguments = ["rewrite", tmp_path / "in", "--output", tmp_path / "out", "--drop-key", "a", "--before", "1970-01-02"]
    done = inside(*arguments)
    assert done.returncode == 0, done.stderr
    assert "2 records, 1 dropped" in done.stdout or "dropped" in done.stdout
    assert inside(*arguments).returncode == 2
    assert inside("rewrite", tmp_path / "in", "--output", tmp_path / "in" / "x").returncode == 2


def test_interrupt_leaves_nothing_and_prints_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    partition(tmp_path / "in", data(0))
    monkeypatch.setattr(rewrite_partition.OpenSegment, "write", interrupted)
    done = inside("rewrite", tmp_path / "in", "--output", tmp_path / "out")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == f"kafkafmt: interrupted: {tmp_path / 'out'} contains no data\n"
    assert not (tmp_path / "out").exists()
