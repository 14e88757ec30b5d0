"""What was asked for is not there: a line that names what is, and an exit code that is not 0."""

from __future__ import annotations

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
def orders(tmp_path: Path) -> Path:
    return write_log(tmp_path / "data", "orders-0", "orders-1", "orders-2", "payments-0")


@pytest.mark.parametrize("command", ["ls", "cat", "verify"])
def test_a_topic_or_partition(orders: Path, command: str) -> None:
    for selection, line in (
        ("-t oders", "no topic matches 'oders': the nearest is orders"),
        ("-t pay", "no topic matches 'pay': the nearest is payments"),
        ("-t zzz", "no topic matches 'zzz': there are orders and payments"),
        ("-t orders -p 7", "orders has no partition 7: there are 0 to 2"),
        ("-t payments -p 2,3", "payments has no partition 2: there is 0; payments has no partition 3: there is 0"),
        ("-p 9", "no topic has partition 9: there are 0 to 2"),
    ):
        done = kafkafmt(command, orders, *selection.split())
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kafkafmt: {line}\n")


def test_existing_partitions_are_shown_and_missing_ones_reported(orders: Path) -> None:
    done = kafkafmt("cat", orders, "-t", "payments", "-t", "oders", "-p", "0,5", "-n", "1")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr.splitlines() == [
        "kafkafmt: no topic matches 'oders': the nearest is orders",
        "kafkafmt: payments has no partition 5: there is 0",
    ]


def test_internal_topics_are_named(tmp_path: Path) -> None:
    done = kafkafmt("cat", write_log(tmp_path / "data", "__consumer_offsets-0"), "-t", "*offsets")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--internal" in done.stderr


def test_seek(orders: Path) -> None:
    done = kafkafmt("seek", orders, "-t", "order", "-p", "1", "--offset", "0")
    assert (done.returncode, done.stderr) == (2, "kafkafmt: no topic matches 'order': the nearest is orders\n")
    done = kafkafmt("seek", orders, "-t", "orders", "-p", "9", "--offset", "0")
    assert (done.returncode, done.stderr) == (2, "kafkafmt: orders has no partition 9: there are 0 to 2\n")


@pytest.mark.parametrize("command", ["ls", "cat", "verify"])
def test_the_folder_above_log_directories(command: str) -> None:
    above = case("jbod").roots[0].parent
    done = kafkafmt(command, above)
    assert (done.returncode, done.stdout) == (3, "")
    below = ", ".join(str(r) for r in case("jbod").roots)
    assert (
        done.stderr
        == f"kafkafmt: {above}: no log in it (no .log file, no partition directory); there are logs in {below}\n"
    )
    assert str(case("codecs").roots[0]) in kafkafmt(command, case("codecs").folder.parent).stderr


def test_nothing_is_near(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert (
        kafkafmt("ls", tmp_path).stderr
        == f"kafkafmt: {tmp_path}: no log in it (no .log file, no partition directory)\n"
    )


def test_a_directory_that_may_not_be_read(orders: Path) -> None:
    orders.chmod(0)
    code = "import os, sys; import kafkafmt.cli.ls; from kafkafmt.cli.main import run; os.geteuid() or os.setuid(65534); run()"
    done = subprocess.run([sys.executable, "-c", code, "ls", orders], capture_output=True, text=True, check=False)
    orders.chmod(0o700)
    assert (done.returncode, done.stderr) == (3, f"kafkafmt: {orders}: Permission denied\n")
