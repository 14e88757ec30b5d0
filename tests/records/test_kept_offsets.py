"""Check the offset of each built record: its own, the next one, or an error."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kafkafmt
from kafkafmt import InvalidError, build_batch, build_batches, read_records
from kafkafmt.records import BatchBuilder

FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in ("none", "gzip")]


def offsets_of(data: bytes) -> list[int]:
    return [r.offset for r in read_records(data)]


@pytest.fixture(params=FORMATS, ids=str)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"magic": request.param[0], "codec": request.param[1]}


def records_of(core: ModuleType, offsets: list[int]) -> list[Any]:
    return [core.Record(o, -1, -1, b"k", b"v%d" % o) for o in offsets]


@pytest.mark.parametrize("given", [list, tuple, iter])
def test_records_keep_their_offsets_if_one_is_removed(
    package: ModuleType, options: dict[str, Any], given: Callable[[list[Any]], Iterator[Any]]
) -> None:
    records = records_of(package, list(range(100, 110)))
    del records[4]
    kept = [100, 101, 102, 103, 105, 106, 107, 108, 109]
    assert offsets_of(build_batch(given(records), **options)) == kept
    assert offsets_of(b"".join(build_batches(given(records), **options))) == kept
    assert offsets_of(b"".join(build_batches(given(records), 120, **options))) == kept
    values = [r.value for r in read_records(build_batch(records, **options))]
    assert values == [b"v%d" % o for o in kept]


def test_read_records_are_rebuilt_byte_for_byte(package: ModuleType) -> None:
    data = build_batch([(b"a", b"1", 5, (), 7), (b"b", b"2", 6, [("h", None)], 9)])
    assert build_batch(read_records(data)) == data


def test_tuples_of_five_items_keep_their_offsets(package: ModuleType, options: dict[str, Any]) -> None:
    tuples = [(b"k", b"v", -1, (), o) for o in (3, 9, 10, 400)]
    assert offsets_of(build_batch(tuples, **options)) == [3, 9, 10, 400]
    assert offsets_of(build_batch([*tuples, (b"k", b"v")], **options)) == [3, 9, 10, 400, 401]
    assert offsets_of(build_batch([(b"k", b"v", -1, (), None)] * 2, base_offset=8, **options)) == [8, 9]


def test_records_without_an_offset_get_the_next_one(package: ModuleType, options: dict[str, Any]) -> None:
    data = build_batch([(b"k", b"v")] * 3, base_offset=50)
    records = list(read_records(data, columns=("key", "value")))
    assert [r.offset for r in records] == [-1] * 3
    assert offsets_of(build_batch(records, base_offset=5, **options)) == [5, 6, 7]
    assert offsets_of(build_batch([*records, (b"k", b"v")], base_offset=5, **options)) == [5, 6, 7, 8]


@pytest.mark.parametrize("offsets", [[5, 5], [6, 5], [5, -2], [5, 2**63 - 1], [5, 2**62, 7]])
def test_offsets_that_do_not_increase_are_rejected(
    package: ModuleType, options: dict[str, Any], offsets: list[int]
) -> None:
    for records in (records_of(package, offsets), [(b"k", b"v", -1, (), o) for o in offsets]):
        with pytest.raises(InvalidError) as caught:
            build_batch(records, **options)
        assert caught.value.code in ("offset_order", "offset_delta")


def test_offsets_below_the_base_offset_are_rejected(package: ModuleType, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as caught:
        build_batch(records_of(package, [5]), base_offset=6, **options)
    assert caught.value.code == "offset_order"
    assert offsets_of(build_batch(records_of(package, [5]), base_offset=5, **options)) == [5]
    (batch,) = kafkafmt.iter_batches(build_batch(records_of(package, [5]), base_offset=2))
    assert (batch.base_offset, batch.last_offset) == (2, 5)  # as after compaction


@pytest.mark.parametrize(
    "plain", [(b"k", b"v"), (b"k", b"v", 5), (b"k", b"v", -1, [("h", b"v")]), (b"k", b"v", -1, (), None)]
)
@pytest.mark.parametrize("many", [1, 3, 40])
def test_records_with_and_without_offsets_are_rejected(
    package: ModuleType, plain: tuple[object, ...], many: int
) -> None:
    numbered = records_of(package, list(range(10, 10 + many)))
    bare = package.Record(-1, -1, -1, b"k", b"v")
    for other in (plain, bare):
        for mixed in ([*numbered, *[other] * many], [*[other] * many, *numbered], [other, *numbered, other]):
            for given in (mixed, tuple(mixed), iter(mixed)):
                with pytest.raises(ValueError, match="keep their offsets"):
                    build_batch(given)
            for size, given in itertools.product((None, 100), (list, iter)):
                with pytest.raises(ValueError, match="keep their offsets"):
                    list(build_batches(given(mixed), size))


def test_mixed_records_are_rejected_between_chunks_of_an_iterator(package: ModuleType) -> None:
    for first, second in (
        (records_of(package, list(range(1024))), [(b"k", b"v")]),
        ([(b"k", b"v")] * 1024, records_of(package, [2000])),
    ):
        with pytest.raises(ValueError, match="keep their offsets"):
            list(build_batches(iter([*first, *second])))


def test_builder_continues_after_explicit_offsets(package: ModuleType) -> None:
    builder = BatchBuilder()
    assert builder.extend(records_of(package, [5, 8])) == 2
    assert builder.append(b"k", b"v")
    assert builder.append(b"k", b"v", offset=20)
    assert builder.next_offset == 21
    assert offsets_of(builder.finish()) == [5, 8, 9, 20]


def test_log_writer_keeps_offsets_of_records(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        assert writer.append([kafkafmt.Record(5, 1, 0, b"k", b"v"), kafkafmt.Record(9, 1, 0, b"k", b"v")]) == (0, 9)
        with pytest.raises(InvalidError):
            writer.append([kafkafmt.Record(9, 1, 0, b"k", b"v")])
    assert [r.offset for r in kafkafmt.open(tmp_path)["t", 0]] == [5, 9]
