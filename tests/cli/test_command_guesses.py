"""Check commands that users of other tools guess: they work, or one line says what to type."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from command import inside, process

from kafkafmt import LogDirectory

BASE = 1_767_225_600_000  # 2026-01-01


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guesses") / "data"
    with LogDirectory(path) as directory:
        for topic, partitions in (("orders", 2), ("users", 1)):
            for number in range(partitions):
                records = [(b"k%d" % n, b"v%d" % n, BASE + n) for n in range(20)]
                directory.writer(topic, number).append(records)
    with tarfile.open(path.parent / "data.tgz", "w:gz") as archive:
        archive.add(path, "data")
    with tarfile.open(path.parent / "data.tar", "w") as archive:
        archive.add(path, "data")
    return path


WORKS = {
    # command: the number of lines on stdout, or None
    "ls DATA": None,
    "ls DATA --json": None,
    "ls DATA -J": None,
    "ls DATA -t orders,users": None,
    "cat DATA": 60,
    "cat DATA --json": 60,
    "cat DATA -J": 60,
    "cat DATA -t orders,users": 60,
    "cat DATA -t users -o beginning": 20,
    "cat DATA -t users -o beginning:5": 5,
    "cat DATA -t users -o end": 0,
    "cat DATA -t users -o -3": 3,
    "cat DATA -t users -o :end -n 2": 2,
    "cat DATA.tar": 60,
    "cat DATA.tgz": 60,
    "seek DATA -t orders --offset 5": 2,
    "seek DATA -t orders --timestamp 2026-01-01 --offset 5": 4,
    "verify DATA --json": None,
    "stats DATA --json": None,
    "dump LOG": None,
    "dump LOG --json": None,
    "export DATA -O OUT.parquet -t users --json": None,
    "help": None,
    "-h": None,
    "--version": None,
}
ADVICE = {
    # command: what the line on stderr contains
    "list DATA": "type kafkafmt ls PATH",
    "topics DATA": "type kafkafmt ls PATH",
    "head DATA": "type kafkafmt cat PATH -n 10",
    "tail DATA": "type kafkafmt cat PATH -o -10:",
    "grep v1 DATA": "type kafkafmt cat PATH --grep REGEX",
    "version": "type kafkafmt --version",
    "stat DATA": "did you mean stats?",
    "cat -f %k\\n DATA": "--format sets the format, as in --format",
    "cat DATA -c 5": "-n N prints at most N records",
    "cat -C DATA": "cat needs no option for this",
    "cat DATA --from-beginning": "cat starts at the beginning by default",
    "cat DATA --max-messages 5": "-n N prints at most N records",
    "cat DATA --bootstrap-server localhost:9092": "PATH replaces the address of a broker",
    "cat DATA -b localhost:9092": "PATH replaces the address of a broker",
    "cat DATA -o json": "a bound is an offset, -N or @TIME",
    "cat DATA -o 10..12": "as in 100:200",
    "cat DATA -o 2026-01-03:": "@TIME",
    "cat DATA --format jsonl": "json",
    "cat DATA -t oders": "orders",
    "ls DATA -o json": "--format json selects JSON",
    "ls DATA -q": "2>/dev/null",
    "ls DATA --quiet": "2>/dev/null",
    "ls DATA -v": "messages go to stderr",
    "ls DATA --verbose": "messages go to stderr",
    "-v": "kafkafmt --version",
    "ls DATA --no-color": "the output has no colors",
    "ls MISSING": "No such file or directory",
    "export DATA -o out.parquet": "-O names the output",
    "export DATA OUT": "type kafkafmt export DATA -O OUT",
    "export DATA": "type kafkafmt export DATA -O OUT",
    "salvage DATA OUT": "type kafkafmt salvage DATA -O OUT",
    "serve DATA --port 9092": "--listen HOST:PORT",
    "seek DATA -t orders -o @2026-01-10": "--timestamp TIME",
    "seek DATA -t orders": "specify --offset or --timestamp",
    "groups DATA": "__consumer_offsets",
}


def words_of(command: str, data: Path, output: Path) -> list[str]:
    log = next((data / "users-0").glob("*.log"))
    names = {"DATA": data, "DATA.tar": f"{data}.tar", "DATA.tgz": f"{data}.tgz", "LOG": log, "MISSING": data / "none"}
    names |= {"OUT": output / "OUT", "OUT.parquet": output / "out.parquet"}
    return [str(names.get(word, word)) for word in command.split(" ")]


@pytest.mark.parametrize("command", WORKS)
def test_guessed_command_works(command: str, data: Path, tmp_path: Path) -> None:
    done = inside(*words_of(command, data, tmp_path))
    assert done.returncode == 0, done.stderr
    lines, expected = done.stdout.splitlines(), WORKS[command]
    assert expected is None or len(lines) == expected
    if command.endswith(("--json", "-J")):
        assert all(json.loads(line) for line in lines)


@pytest.mark.parametrize("command", ADVICE)
def test_guessed_command_gets_advice_in_one_line(command: str, data: Path, tmp_path: Path) -> None:
    words = words_of(command, data, tmp_path)
    done = inside(*words)
    assert done.returncode in (2, 3)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    expected = ADVICE[command].replace("DATA", str(data))
    assert expected.replace("-O OUT", f"-O {tmp_path / 'OUT'}" if "OUT" in command else "-O OUT") in done.stderr


def test_stdin_is_read_as_a_segment(data: Path) -> None:
    log = next((data / "users-0").glob("*.log"))
    for command, expected in (("cat", 20), ("verify", 2)):
        with open(log, "rb") as stdin:
            done = process(command, "-", stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == expected


def test_stdin_without_a_log(data: Path) -> None:
    done = process("cat", "-")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


def test_seek_of_all_partitions_names_them(data: Path) -> None:
    done = inside("seek", data, "-t", "orders", "--offset", "3", "--json")
    assert [(a["partition"], a["offset"]) for a in map(json.loads, done.stdout.splitlines())] == [(0, 3), (1, 3)]
    lines = inside("seek", data, "-t", "orders", "--offset", "3").stdout.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["orders-0:", "orders-1:"]


def test_json_after_two_dashes_is_a_path(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "--json")
    done = inside("cat", "--", str(tmp_path / "--json"))
    assert len(done.stdout.splitlines()) == 60
    assert inside("cat", "--", "--json").returncode == 3


def test_word_with_a_comma_is_two_topics(data: Path) -> None:
    done = inside("cat", data, "-t", "users,oders")
    assert done.returncode == 0
    assert "oders" in done.stderr
