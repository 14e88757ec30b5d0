"""Test the options of `kafkafmt cat` that find records by key, value and headers."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from building import batch, record
from command import inside

import kafkafmt
from kafkafmt.records import Partitioner

RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]] = [
    (b"order-1", b'{"customer": {"country": "DE"}, "amount": 5}', [(b"source", b"shop")]),
    (b"order-2", b'{"customer": {"country": "IT"}, "amount": "5"}', [(b"source", b"app"), (b"trace", None)]),
    (b"order-1", b"FAILED: \xff", []),
    (None, None, [(b"source", b"shop")]),
    (b"hex:6f", b"a\nb", []),
    ("schlüssel".encode(), "größe".encode(), []),
]


def write_log(folder: Path, name: str, keys: list[bytes]) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / f"{0:020}.log").write_bytes(batch([record(i, 0, key, b"v") for i, key in enumerate(keys)]))


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").mkdir()
    log = batch([record(i, 0, key, value, headers) for i, (key, value, headers) in enumerate(RECORDS)])
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(log)
    return tmp_path


def offsets(path: Path, *arguments: str) -> list[int]:
    """Return the offsets of the printed records."""
    done = inside("cat", path, *arguments, "--format", "%o ")
    assert done.returncode == 0, done.stderr
    return [int(offset) for offset in done.stdout.split()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--key", "order-1"], [0, 2]),
        (["--key", "base64:" + base64.b64encode(b"order-2").decode()], [1]),
        (["--key", "hex:6F 72 64 65 72 2d 32"], [1]),
        (["--key", "utf8:hex:6f"], [4]),
        (["--key", "schlüssel"], [5]),
        (["--key", "order"], []),
        (["--key", ""], []),
        (["--key-regex", "^order-[12]$"], [0, 1, 2]),
        (["--key-regex", ""], [0, 1, 2, 4, 5]),
        (["--grep", "FAILED|amount"], [0, 1, 2]),
        (["--grep", r"\xff"], [2]),
        (["--grep", "^b"], []),
        (["--grep", "größe"], [5]),
        (["--header", "source"], [0, 1, 3]),
        (["--header", "source=shop"], [0, 3]),
        (["--header", "source=hex:617070"], [1]),
        (["--header", "source", "--header", "trace"], [1]),
        (["--header", "trace="], []),
        (["--value-json", "customer.country=IT"], [1]),
        (["--value-json", "amount=5"], [0, 1]),
        (["--value-json", 'amount="5"'], [1]),
        (["--value-json", "amount=5", "--key", "order-1"], [0]),
        (["--key", "order-1", "--grep", "FAILED", "--header", "source"], []),
        (["--header", "source", "-n", "2"], [0, 1]),
        (["--header", "source", "-n", "2", "-o", "1:"], [1, 3]),
        (["--header", "source", "-n", "0"], []),
    ],
    ids=str,
)
def test_conditions_select_records(log_directory: Path, arguments: list[str], expected: list[int]) -> None:
    assert offsets(log_directory, *arguments) == expected


def test_no_match_prints_a_message_and_exits_with_0(log_directory: Path) -> None:
    done = inside("cat", log_directory, "--grep", "nothing")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "kafkafmt: none of the 6 records matches\n"
    done = inside("cat", log_directory, "--grep", "nothing", "-o", "9:")
    assert done.stderr == "kafkafmt: no record in that range: orders-0 has offsets 0 to 5\n"


SCHEMA_ID = b"\0\0\0\0\7"
VALUES = [
    SCHEMA_ID + b'{"name": "a", "more": false}',
    SCHEMA_ID + b'{"name": "b", "more": true}',
    b'{"more": false}',
    b'[{"more": false}]\n',
    b"17",
    b"text",
    b"",
    None,
    b"{'more': false}",
    b'{"more": fal',
    SCHEMA_ID + b"\x08avro",
    SCHEMA_ID,
    b"\0{}",
    b"\xff",
]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    with kafkafmt.LogDirectory(tmp_path / "mixed") as directory:
        directory.writer("people", 0).append([(None, value, 5) for value in VALUES])
    return tmp_path / "mixed"


def test_value_json_skips_schema_ids_and_counts_other_values(mixed: Path) -> None:
    done = inside("cat", mixed, "--value-json", "more=false", "--format", "%o ")
    assert (done.returncode, done.stdout) == (0, "0 2 ")
    assert done.stderr == "kafkafmt: 8 values are not JSON, so --value-json cannot match\n"
    log = kafkafmt.open(mixed)
    assert [r.offset for r in log["people", 0].find(value_json={"more": False})] == [0, 2]
    assert log.messages == ["people-0: 8 values are not JSON, so value_json cannot match"]
    assert [r.offset for r in log["people", 0].find(value_json={"0.more": False}, end=4)] == [3]
    assert len(log.messages) == 1


def test_value_json_counts_only_values_that_it_tests(mixed: Path) -> None:
    done = inside("cat", mixed, "--value-json", "more=false", "--grep", "text")
    assert done.stderr == (
        "kafkafmt: none of the 14 records matches\nkafkafmt: 1 value is not JSON, so --value-json cannot match\n"
    )
    assert inside("cat", mixed, "--value-json", "more=false", "-n", "2").stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key", "base64:=x"],
        ["--key", "hex:abc"],
        ["--key-regex", "("],
        ["--grep", "*"],
        ["--grep", "[ä]"],
        ["--header", "a=base64:?"],
        ["--value-json", "a"],
        ["--value-json", "=5"],
        ["--only-partition-of-key"],
    ],
    ids=str,
)
def test_wrong_condition_is_wrong_usage(log_directory: Path, arguments: list[str]) -> None:
    done = inside("cat", log_directory, *arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    ("option", "instead"), [("--key", "--key-regex"), ("--key-regex", "--key-regex"), ("--grep", "--grep")]
)
def test_repeated_condition_is_wrong_usage(log_directory: Path, option: str, instead: str) -> None:
    done = inside("cat", log_directory, option, "order-1", option, "order-2")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{option} was repeated; to search for a or b, use {instead} 'a|b'" in done.stderr


def test_only_the_partition_of_the_key_is_read(tmp_path: Path) -> None:
    keys = [b"key-%d" % i for i in range(50)]
    numbers = Partitioner(3).column(keys).tolist()
    for number in range(3):
        write_log(tmp_path, f"t-{number}", [k for k, n in zip(keys, numbers, strict=True) if n == number])
    for key, number in zip(keys[:9], numbers, strict=False):
        done = inside("cat", tmp_path, "--key", key.decode(), "--only-partition-of-key", "--format", "%p %k")
        assert (done.returncode, done.stdout) == (0, f"{number} {key.decode()}")
        message = f"kafkafmt: t: 3 partitions found; only partition {number} is read, because the key belongs to it\n"
        assert done.stderr == message
        other = inside("cat", tmp_path, "--key", key.decode(), "--only-partition-of-key", "-p", str((number + 1) % 3))
        assert (other.returncode, other.stdout) == (0, "")
    write_log(tmp_path, "t-4", [])
    done = inside("cat", tmp_path, "--key", "a", "--only-partition-of-key")
    assert done.returncode == 2
    assert "needs all partitions of t, but partition 3 was not found" in done.stderr


def test_damage_keeps_its_exit_code_if_records_are_searched(tmp_path: Path) -> None:
    parts = [batch([record(0, value=b"x" * 90)], base_offset=i) for i in range(4)]
    parts[2] = parts[2][:-1] + b"?"
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    for arguments, printed in (([], "01"), (["--on-error", "skip"], "013"), (["-n", "2"], "01")):
        done = inside("cat", str(tmp_path), "--grep", "x", "--format", "%o", *arguments)
        assert (done.returncode, done.stdout) == (0 if arguments == ["-n", "2"] else 1, printed)


def test_following_prints_only_matching_records(log_directory: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "kafkafmt",
        "cat",
        str(log_directory),
        "-f",
        "--header",
        "source=shop",
        "--format",
        "%o\n",
        "-n",
        "3",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["0\n", "3\n"]
        more = batch([record(0), record(1, 0, b"k", b"v", [(b"source", b"shop")])], base_offset=6)
        with (log_directory / "orders-0" / f"{0:020}.log").open("ab") as file:
            file.write(more)
        assert process.stdout.read() == "7\n"
        assert process.wait(60) == 0


def test_interrupt_ends_an_exponential_search(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch([record(0, 0, b"k", b"a" * 60 + b"b")]))
    command = [sys.executable, "-m", "kafkafmt", "cat", str(tmp_path), "--grep", "(a+)+$"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 130
        finally:
            process.kill()
        assert time.monotonic() - started < 30
        assert process.stderr is not None
        assert process.stderr.read() == b""
