"""Test the tools of the fuzzer: mutators, saved inputs, the runner, the minimiser and the counters."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import building
import pytest
from decoding import required

import kafkafmt

from . import batches, known, mutate_batches, run, seeds
from .case import Case, load, of_bytes, save
from .directories import generated, mutated
from .execute import run_case
from .minimise import minimised
from .outcome import OracleError, attempt
from .target import Target, targets
from .with_atheris import BytesRandom
from .work import counted


def test_batch_is_parsed_and_written_without_loss() -> None:
    """A batch contains the same records after it is recompressed with another codec."""
    for batch in seeds.built_batches():
        values = [r.value for r in kafkafmt.read_records(batch, control=True)]
        for codec in range(4) if batch[16] == 2 else range(1, 4) if batches.codec_of(batch) else ():
            changed = batches.with_records(batch, required(batches.unpacked(batch)), codec)
            assert [r.value for r in kafkafmt.read_records(changed, control=True)] == values


def test_records_are_parsed_and_written_unchanged() -> None:
    payload = required(batches.unpacked(building.simple_batch([b"a", None, b"c"], codec=1)))
    records = batches.read_records(payload)
    assert [r[4] for r in records] == [b"a", None, b"c"]
    assert b"".join(map(batches.write_record, records)) == payload


def test_most_mutated_batches_have_a_correct_crc() -> None:
    chance, correct = Random(1), 0
    batch = building.simple_batch([b"v"] * 5)
    for _ in range(300):
        changed = mutate_batches.mutate_batch(chance, batch)
        correct += batches.repaired(changed) == changed
    assert 200 < correct < 300


def test_mutators_cause_every_kind_of_error() -> None:
    """A few hundred inputs include valid ones, and cause every error for bad data."""
    target = targets()["read-records"]
    codes = set()
    for number in range(400):
        case = target.case("kinds", number)
        failure = attempt(lambda data=case.data: list(kafkafmt.read_records(data, max_batch_bytes=5000)))
        codes.add(getattr(getattr(failure, "error", None), "code", "none"))
    assert codes >= {"none", "corrupt_checksum", "corrupt_structure", "unsupported", "too_large"}


def test_generated_directories_have_no_damage(tmp_path: Path) -> None:
    for number in range(20):
        for name, data in generated(Random(number)).items():
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for partition in kafkafmt.open(tmp_path / str(number)).partitions:
            assert list(partition.records(below_log_start=True)) is not None


def test_mutated_directories_differ_from_valid_ones() -> None:
    assert sum(mutated(Random(n)) != mutated(Random(n + 1)) for n in range(20)) > 15


def test_saved_input_is_loaded_unchanged(tmp_path: Path) -> None:
    case = Case({"a": [1, None]}, {"data": b"\0\xff", "other": b""})
    save(case, tmp_path / "x.json", "scan", "note")
    assert load(tmp_path / "x.json") == ("scan", case)


def test_failure_contains_its_place_or_the_difference_of_cores() -> None:
    def wrong(case: Case) -> None:
        raise OracleError(f"byte {case.data[0]} is wrong")

    failure = run_case(Target("x", lambda _: of_bytes(b""), wrong, 1), of_bytes(b"\7"), ["native"]).failure
    assert "test_tools.py:wrong byte # is wrong" in required(failure).signature
    outcomes = iter(([1, [2, 3]], [1, [2, 4]]))
    failure = run_case(
        Target("x", lambda _: of_bytes(b""), lambda _: next(outcomes), 1), of_bytes(b""), ["native", "pure"]
    ).failure
    assert "[1] [1] 3 and 4" in required(failure).text


def test_known_defects_name_targets_that_exist() -> None:
    for entry in known.KNOWN:
        assert set(entry.targets) <= set(targets())
    assert known.known_item("scan", "anything else") is None


def test_minimiser_keeps_only_the_failing_part() -> None:
    case = Case({}, {"data": b"a" * 500 + b"X" + b"b" * 300, "other": b"12345"})
    assert minimised(case, lambda c: b"X" in c.blobs.get("data", b"")).blobs == {"data": b"X"}
    case = Case({"rows": [[1, 2], ["a" * 40, 7]], "n": 3})
    assert minimised(case, lambda c: "aa" in str(c.params["rows"])).params == {"rows": [["aaaa"]], "n": 3}


def test_input_depends_only_on_the_bytes_of_bytes_random() -> None:
    target = targets()["requests"]
    assert target.make(BytesRandom(b"\x17\x99" * 400)) == target.make(BytesRandom(b"\x17\x99" * 400))
    assert target.make(BytesRandom(b"")).data


def test_runner_counts_and_saves_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One of the failing inputs crashes the process."""
    import os

    def check(case: Case) -> list[int]:
        if case.params["n"] == 3:
            raise ZeroDivisionError
        if case.params["n"] == 5:
            os.abort()
        return [case.params["n"]]

    numbers = iter(range(1000))
    target = Target("odd", lambda chance: Case({"n": next(numbers)}), check, 1)
    monkeypatch.setattr(Target, "case", lambda self, seed, number: Case({"n": number}))
    monkeypatch.setitem(targets(), "odd", target)
    log = tmp_path / "log"
    arguments = [
        "--target",
        "odd",
        "--executions",
        "9",
        "--core",
        "pure",
        "--found",
        str(tmp_path),
        "--log",
        str(log),
        "--seconds",
        "60",
    ]
    assert run.main(arguments) == 1
    report = json.loads(log.read_text())
    assert (report["executions"], len(report["failures"])) == (9, 2)
    assert sorted(load(tmp_path / f)[1].params["n"] for f in os.listdir(tmp_path) if f.endswith(".json")) == [3, 5]


def test_counted_work_covers_the_whole_log(tmp_path: Path) -> None:
    data = building.simple_batch([b"v" * 100], codec=1) + building.simple_batch([b"w"], 1)
    (tmp_path / f"{0:020}.log").write_bytes(data)
    with counted() as work:
        assert len(list(kafkafmt.open(tmp_path).partitions[0])) == 2
    assert work.read == len(data)
    assert work.scanned >= len(data)
    assert work.decompressed >= 100


@pytest.mark.parametrize("name", ["scan", "directories", "columns"])
def test_inputs_of_two_seeds_differ(name: str) -> None:
    assert targets()[name].case(1, 0) != targets()[name].case(2, 0)
