"""Test the selected records, the formats and the exit codes of `kafkafmt cat`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import batch, control_batch, record
from command import inside, kafkafmt, records
from golden_cases import case


def write_log(folder: Path, *batches: bytes, name: str = "t-0") -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder / name


@pytest.fixture
def thirty_records(tmp_path: Path) -> Path:
    """Return a partition with offsets 0 to 29 in three batches.

    Each batch is one second later than the previous one.
    """
    start = 1_767_225_600_000
    return write_log(
        tmp_path,
        *(
            batch(
                [record(i, i * 1000, b"k%d" % i, b"v") for i in range(10)],
                base_offset=b * 10,
                base_timestamp=start + b * 10_000,
            )
            for b in range(3)
        ),
    )


@pytest.mark.parametrize(
    ("spec", "first", "last"),
    [
        ("5:8", 5, 7),
        (":3", 0, 2),
        ("27:", 27, 29),
        ("27", 27, 29),
        (":", 0, 29),
        ("-4:", 26, 29),
        ("-4:-2", 26, 27),
        ("-100:2", 0, 1),
        ("@1767225605000:", 5, 29),
        ("@1767225605000:@1767225608000", 5, 7),
        ("@2026-01-01T00:00:12:", 12, 29),
        ("@2026-01-01T00:00:12", 12, 29),
        ("@2026-01-01T00:00:12Z:@2026-01-01T00:00:14", 12, 13),
        ("@2026-01-01T01:00:12+01:00:15", 12, 14),
        ("@2026-01-01:", 0, 29),
        (":@2026-01-01T00:00:02.500", 0, 2),
    ],
)
def test_offset_range_selects_records(thirty_records: Path, spec: str, first: int, last: int) -> None:
    assert [r["offset"] for r in records(thirty_records, "-o", spec)] == list(range(first, last + 1))


@pytest.mark.parametrize("spec", ["30:", "5:5", "8:5", "@2027-01-01:", ":@2020-01-01", ":-30"])
def test_empty_range_prints_a_message_and_exits_with_0(thirty_records: Path, spec: str) -> None:
    done = inside("cat", thirty_records, "-o", spec)
    message = "no record in that range: t-0 has offsets 0 to 29"
    if spec in ("5:5", "8:5"):
        message = f"the range {spec} contains no offset, because its end is exclusive"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"kafkafmt: {message}\n")


def test_logs_without_records_print_a_message(tmp_path: Path) -> None:
    for n in range(4):
        write_log(tmp_path, name=f"t-{n}")
    done = inside("cat", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        done.stderr == "kafkafmt: no record: t-0 has no records, t-1 has no records, t-2 has no records, and 1 more\n"
    )
    write_log(tmp_path, batch([record(0)]), name="t-1")
    assert [inside("cat", tmp_path, *more).stderr for more in ((), ("-n", "0"))] == ["", ""]


def test_log_start_beyond_the_end_hides_all_records_with_a_message(thirty_records: Path) -> None:
    (thirty_records.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 99\n")
    done = inside("cat", thirty_records)
    message = "t-0 has no records: the log start offset 99 is higher than the log end offset 30 (--below-log-start ignores the log start offset)"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"kafkafmt: no record: {message}\n")
    assert len(records(thirty_records, "--below-log-start")) == 30


@pytest.mark.parametrize("spec", ["a:b", "1:2:3", "@yesterday:", "--5:", "1-2"])
def test_invalid_range_is_wrong_usage(thirty_records: Path, spec: str) -> None:
    done = kafkafmt("cat", thirty_records, f"--offsets={spec}")
    assert done.returncode == 2
    assert "Error" in done.stderr


def test_limit_counts_records_of_all_partitions(tmp_path: Path) -> None:
    for n in range(3):
        write_log(tmp_path, batch([record(i) for i in range(4)]), name=f"t-{n}")
    assert [(r["partition"], r["offset"]) for r in records(tmp_path, "-n", 6)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 1),
    ]
    assert records(tmp_path, "-n", 0) == []


def test_topics_and_partitions_are_selected(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "orders-eu-0", "pay.v1-3", "__internal-0"):
        write_log(tmp_path, batch([record(0)]), name=name)

    def chosen(*arguments: str) -> list[str]:
        return [f"{r['topic']}-{r['partition']}" for r in records(tmp_path, *arguments)]

    assert chosen() == ["orders-0", "orders-1", "orders-eu-0", "pay.v1-3"]
    assert chosen("-t", "orders*") == ["orders-0", "orders-1", "orders-eu-0"]
    assert chosen("-t", "orders", "-t", "pay*") == ["orders-0", "orders-1", "pay.v1-3"]
    assert chosen("-p", "1,3") == ["orders-1", "pay.v1-3"]
    assert chosen("-t", "*") == ["orders-0", "orders-1", "orders-eu-0", "pay.v1-3"]
    assert chosen("-t", "__*") == ["__internal-0"]
    assert chosen("--internal")[0] == "__internal-0"
    assert [r["topic"] for r in records(tmp_path / "__internal-0")] == ["__internal"]
    assert kafkafmt("cat", tmp_path, "-t", "nothing").returncode == 2


def test_bytes_are_escaped_or_encoded_as_chosen(tmp_path: Path) -> None:
    headers = [(b"h", b"\xff"), (b"h", None), ("ключ".encode(), b"")]
    path = write_log(
        tmp_path, batch([record(0, 0, "ä\n".encode(), b"a\xff\x00", headers), record(1)], base_timestamp=-1)
    )
    (row, empty) = records(path)
    assert row == {
        "topic": "t", "partition": 0, "offset": 0, "timestamp": -1, "timestampType": 0,
        "key": "ä\n", "value": "a\\xff\x00", "headers": [["h", "\\xff"], ["h", None], ["ключ", ""]],
    }  # fmt: skip
    assert list(row) == ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
    assert (empty["key"], empty["value"], empty["headers"]) == (None, None, [])
    assert records(path, "--bytes", "base64")[0]["value"] == "Yf8A"
    assert records(path, "--bytes", "hex")[0]["value"] == "61ff00"
    assert records(path, "--bytes", "hex")[0]["headers"][2] == ["ключ", ""]


def test_text_keeps_a_record_on_its_line(tmp_path: Path) -> None:
    path = write_log(tmp_path, batch([record(0, 0, None, b"one\ntwo\x1b[31m")], base_timestamp=0))
    assert kafkafmt("cat", path).stdout == "t-0\t0\t1970-01-01T00:00:00.000Z\tnull\tone\\ntwo\\x1b[31m\n"


def test_text_distinguishes_null_from_empty_and_from_the_word(tmp_path: Path) -> None:
    values = [None, b"null", b"", b'"null"', b'""', b"NULL", b"a"]
    path = write_log(tmp_path, batch([record(i, 0, None, v) for i, v in enumerate(values)], base_timestamp=0))
    shown = [line.split("\t")[4] for line in inside("cat", path).stdout.splitlines()]
    assert shown == ["null", '"null"', '""', '""null""', '""""', "NULL", "a"]


def test_control_records_are_printed_only_with_control(tmp_path: Path) -> None:
    sent = batch([record(0)], flags=0x10, producer_id=1)
    path = write_log(tmp_path, sent, control_batch(1, base_offset=1), batch([record(0)], base_offset=2))
    assert [r["offset"] for r in records(path)] == [0, 2]
    assert [r["offset"] for r in records(path, "--control")] == [0, 1, 2]


def test_records_below_the_log_start_are_hidden(tmp_path: Path) -> None:
    write_log(tmp_path, batch([record(i) for i in range(10)]))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert [r["offset"] for r in records(tmp_path)] == list(range(4, 10))
    assert [r["offset"] for r in records(tmp_path / "t-0")] == list(range(4, 10))
    assert [r["offset"] for r in records(tmp_path, "--below-log-start")] == list(range(10))
    assert [r["offset"] for r in records(tmp_path, "-o", "2:6")] == [4, 5]


def test_damage_is_reported_and_exits_with_1(tmp_path: Path) -> None:
    parts = [batch([record(0, value=b"x" * 90)], base_offset=i) for i in range(4)]
    parts[2] = parts[2][:-1] + b"?"
    path = write_log(tmp_path, *parts)
    failed = kafkafmt("cat", path, "--format", "json")
    assert (failed.returncode, len(failed.stdout.splitlines()), len(failed.stderr.splitlines())) == (1, 2, 1)
    assert "; offset 2 cannot be read" in failed.stderr
    skipped = kafkafmt("cat", path, "--format", "json", "--on-error", "skip")
    assert (skipped.returncode, len(skipped.stdout.splitlines()), len(skipped.stderr.splitlines())) == (1, 3, 1)
    assert kafkafmt("cat", path, "-o", "3:").returncode == 0


@pytest.mark.parametrize("damaged", [[2], [2, 5, 8, 11, 14, 17]])
def test_damage_before_the_last_record_within_the_limit_is_reported(tmp_path: Path, damaged: list[int]) -> None:
    parts = [batch([record(0, value=b"x" * 90)], base_offset=i) for i in range(20)]
    for i in damaged:
        parts[i] = parts[i][:-1] + b"?"
    path = write_log(tmp_path, *parts)
    for limit, reported in ((2, 0), (3, 1)):
        done = kafkafmt("cat", path, "--format", "json", "--on-error", "skip", "--limit", limit)
        assert (done.returncode, len(done.stdout.splitlines())) == (reported, limit)
        assert done.stderr.count("skipped: ") == reported


def test_unreadable_path_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.txt").write_text("x")
    for path in ("missing", "empty", "other.txt"):
        done = kafkafmt("cat", tmp_path / path)
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), path


def test_replicas_are_wrong_usage_unless_the_longest_is_chosen(tmp_path: Path) -> None:
    write_log(tmp_path / "a", batch([record(i) for i in range(3)]))
    write_log(tmp_path / "b", batch([record(i) for i in range(5)]))
    both = tmp_path / "a", tmp_path / "b"
    done = kafkafmt("cat", *both)
    assert done.returncode == 2
    assert "--replicas" in done.stderr
    assert [r["offset"] for r in records(*both, "--replicas", "longest")] == list(range(5))
    assert len(records(tmp_path / "a", tmp_path / "a")) == 3


def test_single_file_is_named_after_its_directory(tmp_path: Path) -> None:
    golden = case("codecs").roots[0] / "codec-gzip-0" / f"{0:020}.log"
    assert records(golden, "-n", 1)[0]["topic"] == "codec-gzip"
    (tmp_path / "what is this").mkdir()
    odd = shutil.copy(golden, tmp_path / "what is this" / f"{0:020}.log")
    done = kafkafmt("cat", odd, "-n", 1, "--format", "json")
    assert '"what is this", "partition": 0' in done.stdout
    assert "is not TOPIC-PARTITION" in done.stderr


def test_stray_partition_is_read_if_it_is_given() -> None:
    roots = case("jbod").roots
    state = next(d for r in roots for d in r.iterdir() if d.name.endswith("-stray"))
    assert records(state)[0]["topic"] == "stranger"
    assert not any(r["topic"] == "stranger" for r in records(*roots))


def test_closed_pipe_ends_cat_without_a_message() -> None:
    command = f"{sys.executable} -m kafkafmt cat {case('codecs').roots[0]} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"
