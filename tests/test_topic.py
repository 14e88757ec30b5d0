"""Check the class `Topic`, which reads all partitions of a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkafmt

COUNTS = {0: 5, 1: 0, 2: 3000, 10: 7}
"""Number of records in each partition of the topic "t"."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a log directory with a topic of four partitions, another topic and an internal topic."""
    for number, count in COUNTS.items():
        write(tmp_path / f"t-{number}", count)
    write(tmp_path / "u-0", 4)
    write(tmp_path / "__internal-0", 2)
    return tmp_path


def write(directory: Path, count: int) -> None:
    directory.mkdir()
    batches = [
        kafkafmt.build_batch(
            [(b"k", b"%d" % n, 1000 + n) for n in range(base, min(base + 100, count))], base_offset=base
        )
        for base in range(0, count, 100)
    ]
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True))


EXPECTED = [("t", number, offset) for number, count in COUNTS.items() for offset in range(count)]


def test_topic_contains_its_partitions(path: Path) -> None:
    log = kafkafmt.open(path)
    topic = log["t"]
    assert [p.partition for p in topic.partitions] == sorted(COUNTS)
    assert topic[10] is log["t", 10]
    assert "t" in log
    assert "x" not in log
    assert repr(topic) == "<kafkafmt.Topic 't' with partitions 0, 1, 2, 10>"
    with pytest.raises(KeyError, match="there is no partition t-3; the existing partitions are 0, 1, 2 and 10"):
        topic[3]
    with pytest.raises(TypeError, match="partition must be a whole number"):
        topic["0"]  # type: ignore[index]


def test_repr_of_a_log_uses_the_singular_for_one(tmp_path: Path) -> None:
    write(tmp_path / "t-0", 1)
    log = kafkafmt.open(tmp_path)
    assert repr(log) == "<kafkafmt.Log: 1 partition of 1 topic>"
    assert "1 partition of 1 topic" in log._repr_html_()


def test_long_lists_of_partitions_are_abbreviated(tmp_path: Path) -> None:
    for number in (*range(30), 100):
        write(tmp_path / f"many-{number}", 0)
    for number in range(30):
        write(tmp_path / f"some-{number}", 0)
    log = kafkafmt.open(tmp_path)
    with pytest.raises(KeyError, match="the existing partitions are 0, 1, 2, 3, 4 and 26 more"):
        log["many", 50]
    with pytest.raises(KeyError, match="the existing partitions are 0 to 29"):
        log["some", 50]
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 and 11 more" in repr(log["many"])
    assert repr(log["some"]) == "<kafkafmt.Topic 'some' with partitions 0 to 29>"


def test_records_of_all_partitions_are_read(path: Path) -> None:
    topic = kafkafmt.open(path)["t"]
    assert [r.value for r in topic] == [b"%d" % i for count in COUNTS.values() for i in range(count)]
    assert [r.offset for r in topic.records(start=-2)] == [3, 4, 2998, 2999, 5, 6]


@pytest.mark.parametrize("threads", [1, 2, None])
def test_table_is_ordered_by_partition_and_offset(path: Path, threads: int | None) -> None:
    topic = kafkafmt.open(path)["t"]
    assert rows(topic.to_arrow(threads=threads)) == EXPECTED
    unordered = pa.Table.from_batches(topic.to_batches(threads=threads, ordered=False))
    assert sorted(rows(unordered)) == EXPECTED
    assert rows(pa.table(topic)) == EXPECTED
    assert topic.to_arrow(["offset"], start=-1)["offset"].to_pylist() == [4, 2999, 6]


@pytest.mark.parametrize("limit", [0, 1, 5, 6, 2999, 3005, 3006, 3012, 4000])
def test_limit_applies_to_all_partitions_together(path: Path, limit: int) -> None:
    log = kafkafmt.open(path)
    topic = log["t"]
    assert rows(topic.to_arrow(limit=limit)) == EXPECTED[:limit]
    assert [r.offset for r in topic.records(limit=limit)] == [offset for _, _, offset in EXPECTED[:limit]]
    assert rows(log.to_arrow(limit=limit)) == (EXPECTED + [("u", 0, i) for i in range(4)])[:limit]
    assert [r.offset for r in topic[2].records(limit=limit)] == list(range(min(limit, 3000)))
    assert topic[2].to_arrow(["offset"], limit=limit)["offset"].to_pylist() == list(range(min(limit, 3000)))


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_limit_ends_reading_early(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", 0)
        for n in range(40):
            writer.append([(b"%d" % n, bytes(500_000), 1000)])
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert partition.to_arrow(["offset"], limit=2)["offset"].to_pylist() == [0, 1]
    assert partition.log.bytes_read < 10_000_000


def test_wrong_limit_is_refused(path: Path) -> None:
    partition = kafkafmt.open(path)["t", 2]
    for read in (partition.records, partition.to_batches, kafkafmt.open(path)["t"].records):
        with pytest.raises(ValueError, match="limit is -1; it cannot be negative"):
            read(limit=-1)


def test_log_reads_chosen_topics(path: Path) -> None:
    log = kafkafmt.open(path)
    others = [("u", 0, i) for i in range(4)]
    assert rows(log.to_arrow()) == EXPECTED + others
    assert rows(log.to_arrow(topics="u")) == others
    assert rows(log.to_arrow(topics=["u", "__int*"])) == [("__internal", 0, 0), ("__internal", 0, 1), *others]
    assert rows(pa.table(log)) == EXPECTED + others
    with pytest.raises(kafkafmt.PartitionNotFoundError, match="no topic matches"):
        log.to_arrow(topics="v")
    assert rows(log.to_arrow(topics=["u", "v"])) == others
    assert any("'v'" in message or " v" in message for message in log.messages)


def test_damage_is_an_error_or_is_listed(path: Path) -> None:
    file = path / "t-2" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    topic = kafkafmt.open(path)["t"]
    for read in (topic.to_arrow, lambda: list(topic)):
        with pytest.raises(kafkafmt.DamagedLogError):
            read()
    found = rows(topic.to_arrow(on_error="skip"))
    assert len(found) == len(EXPECTED) - 100
    assert [damage.file for damage in topic.damaged] == [file.name]
    assert rows(topic.to_arrow(limit=20)) == EXPECTED[:20]


def test_records_are_found_in_all_partitions(path: Path) -> None:
    topic = kafkafmt.open(path)["t"]
    found = [(p.partition, r.offset) for p, r in topic.find(value_regex="^[0-4]$")]
    assert found == [(number, offset) for number in (0, 2, 10) for offset in range(5)]
    assert [(p.partition, r.offset) for p, r in topic.find(value_regex="^4$", limit=2)] == [(0, 4), (2, 4)]
    assert list(topic.find(key="other")) == []
    assert list(topic.find(limit=0)) == []
    with pytest.raises(ValueError, match="value_regex: "):
        topic.find(value_regex="(")


def test_text_is_a_time(path: Path) -> None:
    topic = kafkafmt.open(path)["t"]
    assert rows(topic.to_arrow(start_time="1970-01-01")) == EXPECTED
    assert not rows(topic.to_arrow(start_time="-1d"))
    with pytest.raises(ValueError, match="start_time: 'soon' is not a time"):
        topic.to_arrow(start_time="soon")


def test_topic_has_a_table_for_notebooks(path: Path) -> None:
    shown = kafkafmt.open(path)["t"]._repr_html_()
    assert "Topic t: 4 partitions" in shown
    assert ">10</td>" in shown
