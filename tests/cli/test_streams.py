"""Test unusual environments: names that are not UTF-8, closed streams, full disks and wrong usage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import simple_batch
from command import kafkafmt

COMMAND = f"{sys.executable} -m kafkafmt"


def make(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    (folder / name / f"{0:020}.log").write_bytes(simple_batch(["ä".encode()]))
    return folder / name


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", line], capture_output=True, env=os.environ | environment, check=False)


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(e, marks=pytest.mark.slow) for e in ("utf-8", "latin-1"))]
)
@pytest.mark.parametrize("command", ["ls", "cat", "verify"])
def test_json_is_valid_whatever_the_names_and_the_locale(tmp_path: Path, command: str, encoding: str) -> None:
    make(tmp_path, os.fsdecode(b"t\xff-0"))
    make(tmp_path, "ключ-1")
    done = shell(f"{COMMAND} {command} '{tmp_path}' --format json", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    for line in done.stdout.decode().splitlines():
        json.loads(line)
    assert "ключ" in done.stdout.decode()
    assert rb'"t\udcff"' in done.stdout


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    make(tmp_path, "a\x1b[31m\nb-0")
    for command in ("ls", "verify"):
        done = kafkafmt(command, tmp_path)
        assert "\x1b" not in done.stdout
    assert "a\\x1b[31m\\nb-0" in kafkafmt("ls", tmp_path).stdout
    missing = kafkafmt("ls", tmp_path / "no\x1b\nthing")
    assert (missing.returncode, len(missing.stderr.splitlines())) == (3, 1)
    assert "\x1b" not in missing.stderr


def test_long_name_is_not_shortened_in_a_pipe(tmp_path: Path) -> None:
    make(tmp_path, "x" * 240 + "-0")
    assert "x" * 240 + "-0" in kafkafmt("ls", tmp_path).stdout


@pytest.mark.parametrize("command", [pytest.param("ls", marks=pytest.mark.slow), "cat", "verify", "--help"])
def test_closed_stream_is_quiet_and_a_full_one_exits_with_3(tmp_path: Path, command: str) -> None:
    path = make(tmp_path, "t-0")
    done = shell(f"{COMMAND} {command} {path} | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == (b"0\n", b"")
    for closed in (">&-", "2>&-"):
        done = shell(f"{COMMAND} {command} {path} {closed}")
        assert (done.returncode, done.stderr) == (0, b"")
    done = shell(f"{COMMAND} {command} {path} > /dev/full")
    assert (done.returncode, done.stderr) == (3, b"kafkafmt: stdout: No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat"],
        ["nothing"],
        ["cat", "PATH", "--nope"],
        ["cat", "PATH", "-p", "0,,1"],
        ["cat", "PATH", "-p", "-1"],
        ["ls", "PATH", "-p", ""],
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    path = make(tmp_path, "t-0")
    done = kafkafmt(*(path if a == "PATH" else a for a in arguments))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "Error: " in done.stderr


def test_ls_selects_partitions_of_all_states(tmp_path: Path) -> None:
    for name in ("t-0", "t-1.0123-delete", "u-0.4567-stray"):
        make(tmp_path, name)

    def states(*arguments: str) -> list[str]:
        return [
            p["state"]
            for p in json.loads(kafkafmt("ls", tmp_path, "--format", "json", *arguments).stdout)["partitions"]
        ]

    assert states() == ["live", "delete", "stray"]
    assert states("-t", "t") == ["live", "delete"]
    assert states("-p", "0") == ["live", "stray"]


@pytest.mark.parametrize("output_format", ["json", pytest.param("text", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["verify", "log"], 1),
        (["ls", "log"], 1),
        (["stats", "log"], 1),
        (["diff", "log", "log/t-1", "-p", "1"], 0),
        (["salvage", "log", "-O", "out"], 1),
        (["rewrite", "log", "-p", "1", "-O", "out"], 0),
        (["export", "log", "--engine", "local", "-O", "out"], 1),
        (["export", "log", "-p", "1", "--engine", "local", "-O", "out"], 0),
    ],
)
def test_exit_code_does_not_change_if_the_pipe_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], expected: int, output_format: str
) -> None:
    for partition, rest in ((0, b"damage"), (1, b"")):
        folder = tmp_path / "log" / f"t-{partition}"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(simple_batch([b"v"]) + rest * 20)
    monkeypatch.chdir(tmp_path)
    assert kafkafmt(*command, "--format", output_format).returncode == expected
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    read, write = os.pipe()
    os.close(read)
    arguments = [sys.executable, "-m", "kafkafmt", *command, "--format", output_format]
    done = subprocess.run(arguments, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == expected, done.stderr
    assert b"Traceback" not in done.stderr


def test_export_does_not_need_a_current_directory_or_a_home(tmp_path: Path) -> None:
    log, gone = make(tmp_path, "t-0"), tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); os.environ.pop('HOME', None); import pwd\n"
        "def missing(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = missing; import kafkafmt\n"
        f"print(kafkafmt.export({str(log)!r}, {str(tmp_path / 'out')!r}, engine='local').ok)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "True\n", done.stderr
