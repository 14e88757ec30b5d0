"""Test that a wrong value of an option or argument is reported in one line, and only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command import inside
from golden_cases import case

LOG, OTHER = case("codecs").roots[0], case("transactions").roots[0]
LARGE = "9" * 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cat", LOG, "-n", "x"), "'x' is not a whole number"),
        (("cat", LOG, "--max-batch-bytes", LARGE), f"{LARGE} is too large; the largest number is 9223372036854775807"),
        (("seek", LOG, "-t", "codec-none", "-p", "0", "--offset", "٣"), "'٣' is not a whole number"),
        (("seek", LOG, "-t", "codec-none", "-p", "0", "--offset", "9" * 5000), "is too large; the largest number is"),
        (("seek", LOG, "-t", "codec-*", "-p", "0", "--offset", "0"), "-t is 'codec-*'; seek reads one topic"),
        (("groups", LOG, "--at", "soon"), "Invalid value for '--at': 'soon' is not a time; valid forms are"),
        (("groups", LOG, "--at", "2026-13-01"), "Invalid value for '--at': '2026-13-01' is not a time: month must be in 1..12"),
        (("rewrite", LOG, "-O", "out", "--codec", "zstd:"), "'zstd:' has the level '', which is not a whole number"),
        (("rewrite", LOG, "-O", "out", "--codec", "zstd:high"), "has the level 'high', which is not a whole number"),
        (("salvage", LOG, "-O", ""), "Invalid value for '--output' / '-O': the path is empty"),
        (("export", LOG, "-O", "out", "--engine", "local", "--conf", "a=b"), "--master and --conf are settings of Spark"),
        (("export", LOG, "-O", "out", "--engine", "local", "--master", "yarn"), "--master and --conf are settings of Spark"),
        (("completion",), "Choose from: bash, zsh, fish (see kafkafmt completion --help)"),
        (("cat",), "Missing argument 'PATH…' (see kafkafmt cat --help)"),
        (("serve", LOG, "--listen", "localhost:65536"), "'localhost:65536' is not a valid address: the largest port is 65535"),
        (("make", "--from", "/dev/null", "-O", "out"), "the format of '/dev/null' is unknown; use --input-format, or"),
        (("salvage", LOG, "-O", LOG), f"'{LOG}' contains {LOG / 'codec-gzip-0'}, which is an input; choose another"),
        (("export", LOG, "-O", LOG, "--engine", "local"), f"--output {LOG} is an input; choose another directory"),
        (("restore", LOG, "--into", OTHER), f"no metadata log (__cluster_metadata-0) in {OTHER}; use --metadata-dir, the log"),
    ],
)  # fmt: skip
def test_wrong_values_are_reported_in_one_line(
    arguments: tuple[Any, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = inside(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.count("is not a time") <= 1
    assert "\\n" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_make_names_options_in_errors_about_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("value,partition\na,7\n")
    make = ("make", "--from", tmp_path / "rows.csv", "-O", tmp_path / "out")
    assert "the topic is missing; use --topic, or add a column 'topic'" in inside(*make).stderr
    assert "number of topic t is 0; use --partitions=8 or more" in inside(*make, "-t", "t").stderr


def test_largest_batch_size_is_accepted() -> None:
    assert inside("cat", LOG, "--max-batch-bytes", 2**63 - 1).returncode == 0
    assert inside("verify", LOG, "--max-batch-bytes", 2**63 - 1).returncode == 0


@pytest.mark.parametrize("option", [("--tls-cert",), ("--tls-key", "--tls-cert")])
def test_serve_reports_the_path_of_a_wrong_certificate(option: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    wrong = inside("serve", LOG, "--listen", "127.0.0.1:0", *(a for name in option for a in (name, tmp_path / "text")))
    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert f"{tmp_path / 'text'}: the certificate in this file" in wrong.stderr
    missing = inside("serve", LOG, "--listen", "127.0.0.1:0", "--tls-cert", tmp_path / "missing")
    assert missing.returncode == 3
    assert missing.stderr == f"kafkafmt: {tmp_path / 'missing'}: No such file or directory\n"
