"""Test that no output contains unescaped characters that control a terminal, or hide or reorder text."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from building import batch, message, record
from command import inside, kafkafmt

from kafkafmt import records
from kafkafmt.log import Damage
from kafkafmt.log.transactions.transactions import Doubt
from kafkafmt.support.text import encode_json, plain

HOSTILE = (
    "".join(map(chr, [*range(1, 32), *range(0x7F, 0xA0)])).replace("/", "")
    + "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\u2060\u00ad"
)
NAME = "[red]t\x1b]0;x\x07\x9b31m\u202e\u2066\u200e\u061c\u2028\ufeff\r\n\x7f[bold]"
"""A hostile topic that is also a directory name. rich interprets brackets as markup."""
UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
OWN_STYLES = re.compile("\x1b\\[(?:[0-9;]*m|\\?25[hl]|2K|[0-9]*[ABCG])")
"""Escape sequences of rich's progress bars and of bold headings."""


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def commit(group: str, topic: str) -> bytes:
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", 0)
    return record(key=key, value=struct.pack(">hqi", 3, 5, 0) + text(HOSTILE) + struct.pack(">q", 1))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with hostile paths, topics, groups, keys, values and headers.

    The directory contains damage, because messages about damage contain the path.
    """
    path = tmp_path_factory.mktemp("p") / "d\x1b[31m\u202e\x85"
    hostile = HOSTILE.encode()
    good = batch([record(key=hostile, value=hostile, headers=[(hostile, hostile)])])
    for name, data in (
        (
            NAME + "-0",
            good + batch([record(value=b"x")], base_offset=1)[:-1] + b"!" + batch([record(value=b"y")], base_offset=2),
        ),
        (os.fsdecode(b"\xff\x1b-0"), good),
        ("__consumer_offsets-0", batch([commit(HOSTILE, NAME)])),
    ):
        (path / name).mkdir(parents=True)
        (path / name / f"{0:020}.log").write_bytes(data)
    (path / (NAME + "-0") / f"{0:020}.index").write_bytes(b"\xff" * 7)
    return path


def frames(path: Path) -> Path:
    header = struct.pack(">hhi", 3, 9, 1) + text(HOSTILE) + b"\0"
    name = NAME.encode()
    metadata = header + b"\2" + bytes([len(name) + 1]) + name + b"\0\1\1\1\0"
    records = batch([record(key=HOSTILE.encode())])
    produce = struct.pack(">hhi", 0, 3, 2) + text(HOSTILE) + struct.pack(">hhii", -1, 1, 1, 1) + text(NAME)
    produce += struct.pack(">iii", 1, 0, len(records)) + records
    path.write_bytes(b"".join(len(f).to_bytes(4, "big") + f for f in (metadata, produce)))
    return path


def commands(directory: Path, tmp_path: Path) -> dict[str, list[Any]]:
    topic = NAME
    return {
        "ls": ["ls", directory],
        "cat": ["cat", directory, "--on-error", "skip"],
        "cat-headers": ["cat", directory, "-t", "*\udcff*"],
        "verify": ["verify", directory],
        "verify-jobs": ["verify", directory, "-j", "1", "--shallow"],
        "seek": ["seek", directory, "-t", topic, "-p", "0", "--offset", "0"],
        "groups": ["groups", directory],
        "groups-glob": ["groups", directory, "-g", "*", "-g", "no\x1b\u202e"],
        "cat-group": ["cat", directory, "-g", HOSTILE, "--on-error", "skip"],
        "salvage": ["salvage", directory / (NAME + "-0"), "--output", tmp_path / "new\x1b\u202e"],
        "dump": ["dump", "--files", directory, "--print-data-log"],
        "decode": ["decode", "--requests", frames(tmp_path / "frames\x1b\u2028"), "--records"],
        "no-topic": ["ls", directory, "-t", "no\x1b\u202e\x85"],
        "no-path": ["ls", directory / "no\x1b\u202e\x85"],
        "no-log": ["cat", directory / (NAME + "-0") / f"{0:020}.index"],
        "no-option": ["ls", directory, "--no\x1b\u202e\x85"],
        "no-command": ["no\x1b\u202e\x85"],
        "bad-value": ["cat", directory, "-o", "no\x1b\u202e\x85"],
    }


KINDS = [
    "ls", "cat", "cat-headers", "verify", "verify-jobs", "seek", "groups", "groups-glob", "cat-group", "salvage", "dump", "decode",
    "no-topic", "no-path", "no-log", "no-option", "no-command", "bad-value",
]  # fmt: skip


def on_a_terminal(arguments: list[Any]) -> str:
    """Return what a command writes to stdout and stderr if both are terminals."""
    ours, theirs = pty.openpty()
    out = bytearray()

    def drain() -> None:
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:
                return
            out.extend(data)

    reader = threading.Thread(target=drain)
    reader.start()
    with open(theirs, "w", encoding="utf-8") as terminal:
        inside(*arguments, terminal=terminal)
    reader.join(120)
    os.close(ours)
    return OWN_STYLES.sub("", out.decode()).replace("\r\n", "\n").replace("\r", "")


@pytest.mark.parametrize("kind", KINDS)
def test_command_escapes_hostile_text_on_a_terminal(directory: Path, tmp_path: Path, kind: str) -> None:
    shown = on_a_terminal(commands(directory, tmp_path)[kind])
    assert shown
    assert "Traceback" not in shown
    assert UNSAFE.findall(shown) == []
    assert "\\x1b" in shown or kind == "seek"  # seek prints only the file name of the segment


@pytest.mark.parametrize("kind", KINDS)
def test_command_escapes_hostile_text_in_messages_and_json(directory: Path, tmp_path: Path, kind: str) -> None:
    arguments = commands(directory, tmp_path)[kind]
    done = kafkafmt(*arguments, "--format", "json")
    assert UNSAFE.findall(done.stdout + done.stderr) == []
    for line in done.stdout.splitlines():
        json.loads(line)
    as_text = kafkafmt(*arguments) if kind not in ("dump", "salvage") else done
    # A tab separates the fields of `cat` if its output is not a terminal.
    shown = as_text.stdout.replace("\t", "") if kind.startswith("cat") else as_text.stdout
    assert UNSAFE.findall(shown + as_text.stderr) == []


def test_json_keeps_the_values(directory: Path) -> None:
    rows = [
        json.loads(line)
        for line in kafkafmt("cat", directory, "--on-error", "skip", "--format", "json").stdout.splitlines()
    ]
    hostile = next(r for r in rows if r["topic"] == NAME and r["offset"] == 0)
    assert (hostile["key"], hostile["headers"]) == (HOSTILE, [[HOSTILE, HOSTILE]])
    found = json.loads(kafkafmt("groups", directory, "--format", "json").stdout)["offsets"][0]
    assert (found["group"], found["topic"], found["metadata"]) == (HOSTILE, NAME, HOSTILE)


def test_dump_to_a_pipe_is_raw_like_that_of_kafkas_tool(directory: Path) -> None:
    command = [sys.executable, "-m", "kafkafmt", "dump", "--files", str(directory), "--print-data-log"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert HOSTILE.encode() in done.stdout
    assert f"Dumping {directory}".encode() in done.stdout


def test_export_escapes_hostile_text_in_its_table_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    from kafkafmt.cli.export import show_report

    damage = Damage(NAME, 0, 1, 0, 1, "corrupt_checksum", NAME)
    row = SimpleNamespace(
        topic=NAME + "[/x]",
        partition=0,
        written=SimpleNamespace(records=1, bytes=1),
        read=SimpleNamespace(bytes=1),
        quarantined=SimpleNamespace(spans=1, damaged=(damage,)),
        in_doubt=(Doubt(1, 0, 1, NAME),),
    )
    report: Any = SimpleNamespace(
        written=SimpleNamespace(records=1, bytes=1),
        read=SimpleNamespace(bytes=1),
        seconds=SimpleNamespace(total=1.0, rows_per_second=1),
        quarantined=SimpleNamespace(spans=1),
        partitions=(row,),
        options=SimpleNamespace(engine="spark", single_file=False),
        decoded=None,
        output=Path("/out/" + NAME),
    )
    show_report(report)
    shown = capsys.readouterr().out
    assert UNSAFE.findall(shown) == []
    assert shown.count("\\x1b") >= 4
    assert "[red]t\\x1b" in shown


def test_log_lines_of_the_data_source_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    code = f"from kafkafmt.spark import messages; messages.log.handlers.clear(); messages.say({NAME!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert UNSAFE.findall(done.stdout + done.stderr) == []
    assert "\\x1b" in done.stderr


def test_timestamp_of_minus_1_shows_a_dash(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(records.build_batch([(b"k", b"v", -1)]))
    assert inside("cat", tmp_path).stdout == "t-0\t0\t-\tk\tv\n"


def test_records_without_a_timestamp_show_a_dash(tmp_path: Path) -> None:
    (tmp_path / "old-0").mkdir()
    (tmp_path / "old-0" / f"{0:020}.log").write_bytes(message(0, b"k", b"v"))
    assert inside("cat", tmp_path).stdout == "old-0\t0\t-\tk\tv\n"
    shown = [line.split() for line in inside("ls", tmp_path).stdout.splitlines()]
    assert not any("19" in word for word in shown[1][2:])
    answer = inside("seek", tmp_path, "-t", "old", "-p", "0", "--offset", "0").stdout
    assert "1969" not in answer
    (tmp_path / "__consumer_offsets-0").mkdir()
    key = struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, 5, 0) + text("") + struct.pack(">q", -1)
    (tmp_path / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(batch([record(key=key, value=value)]))
    assert inside("groups", tmp_path).stdout.splitlines()[1].split() == ["g", "t-0", "5", "-"]
    assert inside("cat", tmp_path, "--format", "json").stdout.count('"timestamp": -1, "timestampType": -1') == 1


@pytest.mark.parametrize(
    "character", [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *HOSTILE, "\udcff", "\U000e0041"]
)
def test_each_unsafe_character_is_escaped_by_both_rules(character: str) -> None:
    assert plain(f"a{character}b") != f"a{character}b"
    assert plain(f"a{character}b").isprintable()
    encoded = encode_json({character: [character]})
    assert encoded.isprintable()
    assert json.loads(encoded) == {character: [character]}


def test_readable_text_is_not_escaped() -> None:
    for shown in ("größe-日本-😀", "👩‍👩‍👧", "میخواهم", "a\\x1b", 'quote"', "نص", "e\u0301"):
        assert plain(shown) == shown
        assert json.dumps(shown, ensure_ascii=False) == encode_json(shown)


@pytest.mark.parametrize("form", ["text", "json"])
def test_export_escapes_hostile_text_on_a_terminal(directory: Path, tmp_path: Path, form: str) -> None:
    """The test runs the whole command. The text that it prints does not depend on the engine."""
    out = tmp_path / "out\x1b\u202e"
    arguments = ["export", directory, "-t", "*red*", "--output", out, "--engine", "local", "--format", form]
    shown = on_a_terminal(arguments)
    assert "Traceback" not in shown
    assert UNSAFE.findall(shown) == []
    assert "\\x1b" in shown or "\\u001b" in shown
    assert UNSAFE.findall((out / "report.json").read_text().replace("\n", "")) == []
