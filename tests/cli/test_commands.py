"""Test the commands `ls` and `verify` and the options `--version` and `--help`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from building import COMMIT, batch, control_batch, record
from command import kafkafmt, report
from golden_cases import case

from kafkafmt.cli.main import COMMANDS
from kafkafmt.cli.output import say, show_table


@pytest.mark.parametrize("backend", ["native", "pure"])
def test_version_names_core_and_libraries(backend: str) -> None:
    lines = kafkafmt("--version", backend=backend).stdout.splitlines()
    assert lines[0].startswith("kafkafmt ")
    assert lines[1].startswith(f"core: {backend}")
    assert any(line.startswith("zstandard ") for line in lines)


@pytest.mark.parametrize("command", ["ls", "cat", "seek", "verify", "salvage", "export"])
def test_help_shows_an_example(command: str) -> None:
    done = kafkafmt(command, "--help")
    assert done.returncode == 0
    assert re.search(rf"Examples?:\s+kafkafmt {command} ", done.stdout)


def test_ls_lists_partitions_of_all_states() -> None:
    roots = case("jbod").roots
    found = json.loads(kafkafmt("ls", *roots, "--format", "json").stdout)["partitions"]
    states = {p["state"] for p in found}
    assert states == {"live", "delete", "future", "stray"}
    names = {(p["topic"], p["partition"]) for p in found if p["state"] == "live"}
    assert {
        ("dots.in.the.name", 0),
        ("dashes-in-the-name", 2),
        ("under_scores", 1),
        ("0", 0),
        ("...", 0),
        ("ends-in-number-7", 1),
    } <= names
    assert ("-leading.and.trailing-", 0) in names


def test_ls_shows_codecs_formats_and_counts() -> None:
    found = json.loads(kafkafmt("ls", *case("codecs").roots, "-t", "codec-mixed", "--format", "json").stdout)[
        "partitions"
    ]
    (mixed,) = found
    assert mixed["codecs"] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert (mixed["formats"], mixed["records"], mixed["next_offset"]) == ([2], 105, 105)
    text = kafkafmt("ls", *case("codecs").roots).stdout
    assert "codec-mixed-0" in text


def test_ls_shows_open_transactions_gaps_and_epochs() -> None:
    def listed(name: str) -> dict[tuple[str, int], dict[str, Any]]:
        found = json.loads(kafkafmt("ls", *case(name).roots, "--format", "json").stdout)["partitions"]
        return {(p["topic"], p["partition"]): p for p in found}

    transactions, answers = listed("transactions"), case("transactions").offsets()
    assert {at: p["last_stable_offset"] for at, p in transactions.items()} == {
        at: a["lastStableOffset"] for at, a in answers.items()
    }
    assert transactions["tx", 0]["open_transactions"] == [{"producer_id": 1, "first_offset": 101}]
    assert (transactions["tx", 2]["open_transactions"], transactions["tx", 2]["gaps"]) == ([], 0)
    compacted = listed("compacted")
    for at, p in compacted.items():
        kept = [o for topic, partition, o in case("compacted").expected() if (topic, partition) == at]
        if at[0] != "compact-tx":  # in compact-tx, transaction markers have offsets too
            assert p["gaps"] == p["next_offset"] - p["log_start_offset"] - len(kept) > 0
    assert listed("epochs")["epochs", 0]["leader_epochs"][-1] == {"epoch": 8, "start_offset": 96}
    deleted = listed("delete-records")
    assert {at[1]: (p["records"], p["gaps"]) for at, p in deleted.items()} == {
        0: (263, 0),
        1: (200, 0),
        2: (0, 0),
        3: (400, 0),
    }
    text = kafkafmt("ls", *case("transactions").roots).stdout.splitlines()
    assert "stable" in text[0]
    assert "gaps" not in text[0]


STARTS = [(0, 7, 2), (1, 6, 2), (3, 5, 1), (4, 4, 1), (5, 4, 0), (6, 3, 0), (9, 1, 0), (12, 0, 0)]


@pytest.mark.parametrize(("start", "records", "gaps"), STARTS)
def test_ls_counts_from_the_log_start(start: int, records: int, gaps: int, tmp_path: Path) -> None:
    """The log start offset is in a compacted batch, before a marker, or after a marker."""
    path = tmp_path / "t-0"
    path.mkdir()
    # Compaction has removed offsets 2 and 4.
    compacted_batch = batch([record(0), record(1), record(3)], last_offset_delta=4)
    parts = [compacted_batch, batch([record(i) for i in range(3)], base_offset=5), control_batch(COMMIT, base_offset=8)]
    (path / f"{0:020}.log").write_bytes(b"".join([*parts, batch([record(0)], base_offset=9)]))
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    (found,) = json.loads(kafkafmt("ls", tmp_path, "--format", "json").stdout)["partitions"]
    assert (found["records"], found["gaps"]) == (records, gaps)


def test_ls_exits_with_1_on_damage() -> None:
    torn = case("torn").roots[0]
    assert kafkafmt("ls", torn).returncode == 1
    assert kafkafmt("ls", torn, "-t", "torn-cut-body").returncode == 0


def test_unknown_backend_is_reported_in_one_line() -> None:
    done = kafkafmt("ls", case("epochs").roots[0], backend="nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kafkafmt: KAFKAFMT_BACKEND is 'nonsense'; it must be auto, native or pure\n"


def test_verify_exit_codes(tmp_path: Path) -> None:
    torn = case("torn").roots[0]
    assert kafkafmt("verify", torn).returncode == 1
    assert kafkafmt("verify", torn / "torn-cut-body-0").returncode == 0
    assert kafkafmt("verify", torn / "torn-cut-body-0", "--strict").returncode == 1
    assert kafkafmt("verify", torn / "torn-none-0", "--strict").returncode == 0
    assert kafkafmt("verify", tmp_path / "nothing").returncode == 3


def test_verify_text_names_the_lost_offsets() -> None:
    done = kafkafmt("verify", case("torn").roots[0])
    assert "offsets 144 to 146 may be lost" in done.stdout
    assert "3 damaged spans" in done.stdout


def test_unreadable_checkpoints_are_findings(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch([record(0)]))
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    (tmp_path / "t-0" / "partition.metadata").write_text("nonsense")
    (tmp_path / "log-start-offset-checkpoint").write_text("7\n0\n")
    (entry,) = report(tmp_path)["partitions"]
    assert sorted(f["file"] for f in entry["findings"]) == [
        "leader-epoch-checkpoint",
        "log-start-offset-checkpoint",
        "partition.metadata",
    ]
    assert {f["error"] for f in entry["findings"]} == {"unreadable_checkpoint"}


def test_verify_text_names_losses_intact_data_and_remedy() -> None:
    torn = case("torn").roots[0]
    lines = kafkafmt("verify", torn).stdout.splitlines()
    when = "between 2023-11-14T22:13:24.702Z and 2023-11-14T22:13:24.900Z"
    assert f"lost     torn-flip-old-0: offsets 144 to 146, {when} (at most 3 records)" in lines
    assert "safe     624 records in the 3 damaged partitions; 10 partitions without damage" in lines
    assert any(line.startswith(f"         kafkafmt salvage {torn} --output NEW") for line in lines)
    assert sum(line.startswith("advice   unfinished_tail: ") for line in lines) == 1


def test_shallow_verify_checks_only_batches(tmp_path: Path) -> None:
    torn = case("torn").roots[0]
    assert kafkafmt("verify", torn / "torn-index-short-0", "--shallow", "--strict").returncode == 0
    assert kafkafmt("verify", torn / "torn-index-short-0", "--strict").returncode == 1


def test_help_lists_the_commands() -> None:
    done = kafkafmt("--help")
    for name in COMMANDS:
        assert re.search(rf"^  {name} +[A-Z].*[.]$", done.stdout, re.MULTILINE), name
    done = kafkafmt("verfy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kafkafmt: Error: there is no command 'verfy'; did you mean verify? (see kafkafmt --help)\n"


def test_long_lines_break_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "DAMAGE   t-0 00000000000000000000.log at 384, 128 bytes: CRC-32C is 0xe9e8de9c\n and more words; offsets 201 to 203 may be lost"
    say(line)
    assert capsys.readouterr().out == line.replace("\n", "\\n") + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    say(line)
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 60
    assert [s[:9] for s in shown] == ["DAMAGE   ", " " * 9, " " * 9]
    assert " ".join(s.strip() for s in shown) == line.replace("\n", "\\n")


@pytest.mark.parametrize("width", [80, 60, 200])
def test_ls_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((width, 24)))
    names, row = (
        ("partition", "first", "format", "codecs"),
        ("a-topic-of-some-length-0", "12", "0,1,2", "none,gzip,snappy,lz4,zstd"),
    )
    show_table(names, [row], ("first",), ("format", "codecs"))
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= width
    omitted = {80: [], 60: ["format"], 200: []}[width]
    assert shown.err == (
        f"kafkafmt: the terminal is too narrow for these columns: {', '.join(omitted)}; append `| cat` to show all columns\n"
        if omitted
        else ""
    )
    assert all((word in shown.out) == (word not in omitted) for word in names)


def test_times_beyond_the_calendar_are_shown_as_numbers() -> None:
    from kafkafmt.cli.ls import _times

    assert _times(2**63 - 2, 2**63 - 1) == "9223372036854775806 ms to 9223372036854775807 ms"
    assert _times(0, 2**63 - 1) == "1970-01-01T00:00:00 to 9223372036854775807 ms"
    assert _times(0, 1_500) == "1970-01-01T00:00:00 to 00:00:01"
