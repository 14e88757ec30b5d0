"""Test the output formats of `kafkafmt cat`."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from building import LOG_APPEND_TIME, batch, message, record
from command import inside
from golden_cases import GOLDEN
from text_rows import plain_json_line, plain_text_line

import kafkafmt
from kafkafmt.cli.output import BYTES, moment
from kafkafmt.cli.record_lines import COLUMNS, line_format, parse_format, text_line

FORMAT = "%t|%p|%o|%T|%k|%K|%s|%S|%h|%%\\n"


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    headers = [(b"a", b"1"), (b"b", None), (b"c", b"")]
    rows = [record(0, 0, b"k,1", b"\x1b[31m\xff", headers), record(1, 0, None, None), record(2, 0, b"", b"null")]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch(rows, base_timestamp=1_767_225_600_000))
    return tmp_path


def test_json_and_text_of_all_golden_logs_are_those_of_a_plain_formatter() -> None:
    printed = 0
    for i, folder in enumerate(sorted({file.parent for file in GOLDEN.rglob("*.log")})):
        (partition,) = kafkafmt.open(folder)
        control, encoding = i % 2 == 0, ("utf8", "utf8", "base64", "hex")[i % 4]
        records = list(partition.records(on_error="skip", control=control))
        arguments = [folder, "--on-error", "skip", "--bytes", encoding, *(["--control"] if control else [])]
        for name, line in (("json", plain_json_line), ("text", plain_text_line)):
            done = inside("cat", *arguments, "--format", name)
            expected = "".join(line(partition.topic, partition.partition, r, encoding) for r in records)
            assert done.stdout == expected, folder
            printed += len(records)
    assert printed > 60_000


def test_text_of_single_records_is_that_of_the_core(log_directory: Path) -> None:
    (partition,) = kafkafmt.open(log_directory)
    line = text_line(BYTES["utf8"])
    assert "".join(line(partition, r).replace("  ", "\t") for r in partition) == inside("cat", log_directory).stdout


@pytest.mark.parametrize("option", ["--format", "--output-format"])
def test_csv_has_a_header_and_quotes_what_is_special(log_directory: Path, option: str) -> None:
    done = inside("cat", log_directory, option, "csv")
    assert done.stdout == (
        "topic,partition,offset,timestamp,timestampType,key,value,headers\n"
        't,0,0,1767225600000,0,"k,1",\x1b[31m\\xff,"[[""a"", ""1""], [""b"", null], [""c"", """"]]"\n'
        "t,0,1,1767225600000,0,,,[]\n"
        't,0,2,1767225600000,0,"",null,[]\n'
    )
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert list(rows[0]) == list(COLUMNS)
    assert rows[0]["key"] == "k,1"


def test_tsv_has_a_header_and_no_control_characters(log_directory: Path) -> None:
    assert inside("cat", log_directory, "--format", "tsv", "-n", "2").stdout == (
        "topic\tpartition\toffset\ttimestamp\ttimestampType\tkey\tvalue\theaders\n"
        't\t0\t0\t1767225600000\t0\tk,1\t\\x1b[31m\\xff\t[["a", "1"], ["b", null], ["c", ""]]\n'
        "t\t0\t1\t1767225600000\t0\t\\N\t\\N\t[]\n"
    )


def raw(*arguments: Any) -> bytes:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "kafkafmt", "cat", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True).stdout


def test_format_of_kcat_writes_fields_and_stored_bytes(log_directory: Path) -> None:
    expected = (
        b"t|0|0|1767225600000|k,1|3|\x1b[31m\xff|6|a=1,b=NULL,c=|%\n"
        b"t|0|1|1767225600000||-1||-1||%\n"
        b"t|0|2|1767225600000||0|null|4||%\n"
    )
    assert raw(log_directory, "--format", FORMAT) == expected
    assert raw(log_directory, "--format", r"%R\x00\0\10\\\t", "-n", 1) == b"\0\0\0\6\0\0\n\\\t"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "%o "],
        ["--output-format=%o "],
        ["-n", "3", "--format", "%o "],
        ["--format", "%o ", "-n3"],
    ],
    ids=str,
)
def test_format_can_be_given_in_several_ways(log_directory: Path, arguments: list[str]) -> None:
    before, after = inside("cat", *arguments, log_directory), inside("cat", log_directory, *arguments)
    assert (before.stdout, after.stdout) == ("0 1 2 ", "0 1 2 ")


def test_f_follows_and_is_not_a_format(log_directory: Path) -> None:
    done = inside("cat", "-f", "%k %s", log_directory)
    assert done.returncode == 2
    assert "-f follows growing logs; --format sets the format, as in --format '%k %s'" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("xml", "'xml' is not one of text, json, csv, tsv, and contains no field such as %s"),
        ("%y", "contains the unknown field '%y'; the fields are %t %p %o %T %k %s %h %K %S %R"),
        ("%s%", "contains the unknown field '%'"),
        ("%%", "contains no field"),
        ("", "contains no field"),
    ],
)
def test_wrong_format_is_wrong_usage(log_directory: Path, text: str, message: str) -> None:
    done = inside("cat", log_directory, f"--format={text}")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr


def test_escapes_of_a_format_are_those_of_kcat() -> None:
    assert parse_format(r"a\tb\n%s\q\x41\x4g\101\065\\") == [
        b"a", b"\t", b"b", b"\n", b"", "value", b"", b"q", b"", b"A", b"", b"\4", b"g", b"e", b"", b"5", b"", b"\\", b"",
    ]  # fmt: skip


def test_missing_timestamp_is_a_dash_or_a_null(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(message(0, b"k", b"v"))
    shown = {
        name: inside("cat", tmp_path, "--format", name).stdout.splitlines()[-1]
        for name in ("text", "csv", "tsv", "json", "%T")
    }
    assert shown["text"] == "t-0\t0\t-\tk\tv"
    assert shown["csv"] == "t,0,0,,-1,k,v,[]"
    assert shown["tsv"] == "t\t0\t0\t\\N\t-1\tk\tv\t[]"
    assert '"timestamp": -1, "timestampType": -1' in shown["json"]
    assert shown["%T"] == "-"


def on_terminal(*arguments: Any) -> bytes:
    """Return what the command prints if stdout is a terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "kafkafmt", "cat", *map(str, arguments)]
    with open(ours, "rb", buffering=0) as terminal:
        subprocess.run(command, stdout=theirs, env=environment, check=True)
        os.close(theirs)
        printed = b""
        try:
            while part := terminal.read(65536):
                printed += part
        except OSError:  # Linux reports the end of a terminal as an error
            pass
    return printed.replace(b"\r\n", b"\n")


def test_terminal_gets_two_spaces_and_no_control_characters(log_directory: Path) -> None:
    assert on_terminal(log_directory, "-n", 1) == (
        b't-0  0  2026-01-01T00:00:00.000Z  k,1  \\x1b[31m\\xff  a=1  b=null  c=""\n'
    )
    assert b',"k,1",\\x1b[31m\\xff,' in on_terminal(log_directory, "--format", "csv")
    assert on_terminal(log_directory, "-n", 1, "--format", "%s %R\n") == b"\\x1b[31m\\xff \\x00\\x00\\x00\\x06\n"


def test_times_of_all_years_are_in_iso_format() -> None:
    assert moment(-62135596800000) == "0001-01-01T00:00:00.000Z"
    assert moment(253402300799999) == "9999-12-31T23:59:59.999Z"
    assert moment(-62135596800001) == "-62135596800001 ms"


def test_log_append_time_is_marked_in_text(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = batch([record(0, 0, b"k", b"v")], flags=LOG_APPEND_TIME, base_timestamp=0, max_timestamp=1000)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(log)
    assert inside("cat", tmp_path).stdout == "t-0\t0\t1970-01-01T00:00:01.000Z (append)\tk\tv\n"
    shown = text_line(BYTES["utf8"])(
        SimpleNamespace(topic="t", partition=0), next(iter(kafkafmt.open(tmp_path)["t", 0]))
    )
    assert shown == "t-0  0  1970-01-01T00:00:01.000Z (append)  k  v\n"


def test_large_records_are_formatted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkafmt.log.finding import find

    (tmp_path / "t-0").mkdir()
    log = batch([record(i, 0, None, b"%d" % i * 500) for i in range(9)])
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(log)
    whole = inside("cat", tmp_path).stdout
    monkeypatch.setattr(find, "FOUND_BYTES", 2000)
    assert inside("cat", tmp_path).stdout == whole
    assert len(whole.splitlines()) == 9


def test_formats_do_not_depend_on_the_terminal_in_json_and_tsv() -> None:
    for name in ("json", "tsv"):
        assert line_format(name, terminal=True) == line_format(name, terminal=False)
