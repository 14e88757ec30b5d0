"""Test that a command lists the existing topics, partitions or groups in one line if the requested one is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from building import batch, record
from command import inside as kafkafmt
from golden_cases import case


def write_log(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / f"{0:020}.log").write_bytes(batch([record(i) for i in range(3)]))
    return folder


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    return write_log(tmp_path / "data", "orders-0", "orders-1", "orders-2", "payments-0")


@pytest.mark.parametrize("command", ["ls", "cat", "verify"])
def test_missing_topic_or_partition_is_reported_with_the_nearest(log_directory: Path, command: str) -> None:
    for selection, line in (
        ("-t oders", "no topic matches 'oders': the nearest topic is orders"),
        ("-t pay", "no topic matches 'pay': the nearest topic is payments"),
        ("-t zzz", "no topic matches 'zzz': the existing topics are orders and payments"),
        ("-t orders -p 7", "orders has no partition 7: the existing partitions are 0 to 2"),
        (
            "-t payments -p 2,3",
            "payments has no partition 2: the only partition is 0; payments has no partition 3: the only partition is 0",
        ),
        ("-p 9", "no topic has partition 9: the existing partitions are 0 to 2"),
        (
            "-p 9-10",
            "no topic has partition 9: the existing partitions are 0 to 2; no topic has partition 10: the existing partitions are 0 to 2",
        ),
        (
            "-p 9,3-99",
            "no topic has partition 9: the existing partitions are 0 to 2; no topic has partitions 3 to 8: the existing partitions are 0 to 2; no topic has partitions 10 to 99: the existing partitions are 0 to 2",
        ),
    ):
        done = kafkafmt(command, log_directory, *selection.split())
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kafkafmt: {line}\n")


def test_partitions_are_selected_by_ranges(log_directory: Path) -> None:
    def chosen(command: str, numbers: str) -> list[tuple[str, int]]:
        done = kafkafmt(command, log_directory, "-p", numbers, "--format", "json")
        assert done.returncode == 0
        rows = json.loads(done.stdout)["partitions"]
        return [(row["topic"], row["partition"]) for row in rows]

    for command in ("ls", "verify"):
        assert chosen(command, "1-2") == [("orders", 1), ("orders", 2)]
        assert chosen(command, "0, 2-2") == [("orders", 0), ("orders", 2), ("payments", 0)]
        assert chosen(command, "0-100000")[-1] == ("payments", 0)


@pytest.mark.parametrize("numbers", ["2-1", "1-", "-2", "1-2-3", "0-9999999", "0-99999999999999999999", "a-b"])
def test_wrong_range_of_partitions_is_wrong_usage(log_directory: Path, numbers: str) -> None:
    done = kafkafmt("ls", log_directory, f"--partition={numbers}")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert numbers in done.stderr


def test_existing_partitions_are_shown_and_missing_ones_reported(log_directory: Path) -> None:
    done = kafkafmt("cat", log_directory, "-t", "payments", "-t", "oders", "-p", "0,5", "-n", "1")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr.splitlines() == [
        "kafkafmt: no topic matches 'oders': the nearest topic is orders",
        "kafkafmt: payments has no partition 5: the only partition is 0",
    ]


def test_internal_topics_are_named(tmp_path: Path) -> None:
    done = kafkafmt("cat", write_log(tmp_path / "data", "__consumer_offsets-0"), "-t", "*offsets")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--internal" in done.stderr


def test_seek_reports_a_missing_topic_or_partition(log_directory: Path) -> None:
    done = kafkafmt("seek", log_directory, "-t", "order", "-p", "1", "--offset", "0")
    assert (done.returncode, done.stderr) == (2, "kafkafmt: no topic matches 'order': the nearest topic is orders\n")
    done = kafkafmt("seek", log_directory, "-t", "orders", "-p", "9", "--offset", "0")
    assert (done.returncode, done.stderr) == (
        2,
        "kafkafmt: orders has no partition 9: the existing partitions are 0 to 2\n",
    )


@pytest.mark.parametrize("command", ["ls", "cat", "verify"])
def test_error_for_a_folder_above_log_directories_lists_them(command: str) -> None:
    above = case("jbod").roots[0].parent
    done = kafkafmt(command, above)
    assert (done.returncode, done.stdout) == (3, "")
    log_directories = ", ".join(str(r) for r in case("jbod").roots)
    assert (
        done.stderr
        == f"kafkafmt: {above}: no Kafka log found (no .log file and no partition directory); there are logs in {log_directories}\n"
    )
    assert str(case("codecs").roots[0]) in kafkafmt(command, case("codecs").folder.parent).stderr


def test_error_for_a_folder_without_logs_lists_none(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert (
        kafkafmt("ls", tmp_path).stderr
        == f"kafkafmt: {tmp_path}: no Kafka log found (no .log file and no partition directory)\n"
    )


def test_directory_without_read_permission_is_reported(log_directory: Path) -> None:
    log_directory.chmod(0)
    # Another user may be unable to import modules, so all of them are imported before. Python 3.13 needs `locale`.
    code = "import locale, os, sys; import kafkafmt.cli.ls; from kafkafmt.cli.main import run; os.geteuid() or os.setuid(65534); run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "ls", log_directory], capture_output=True, text=True, check=False
    )
    log_directory.chmod(0o700)
    assert (done.returncode, done.stderr) == (3, f"kafkafmt: {log_directory}: Permission denied\n")
