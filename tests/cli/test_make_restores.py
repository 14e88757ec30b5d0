"""Check that `make` restores the bytes that `cat` prints as JSON, or refuses what it cannot restore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import inside

import kafkafmt
from kafkafmt import LogDirectory

RECORDS: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]] = [
    (b"\x00\x00\x00\x00\x0a\x01", b"\xff\xfe text", 1_700_000_000_000, [("h", b"\x80"), ("h", None), ("n", b"")]),
    (None, b"plain", 1_700_000_000_001, []),
    ("k\u00e9\u2028".encode(), None, 1_700_000_000_002, [("\u00fc", b"text")]),
    (b"", b"", -1, []),
    (bytes(range(256)), bytes(range(256)), 0, []),
    (b"literal", rb"\x41 and C:\xyz", 1, []),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with LogDirectory(tmp_path / "source") as directory:
        directory.writer("t").append(RECORDS)
    return tmp_path / "source"


def rows(path: Path) -> list[object]:
    return [(r.key, r.value, r.timestamp, list(r.headers)) for r in kafkafmt.open(path)["t", 0].records()]


@pytest.mark.parametrize("encoding", ["base64", "hex"])
def test_bytes_are_restored(source: Path, tmp_path: Path, encoding: str) -> None:
    printed = inside("cat", source, "--format", "json", "--bytes", encoding)
    assert (printed.returncode, printed.stderr) == (0, "")
    (tmp_path / "rows.json").write_text(printed.stdout)
    made = inside("make", "--from", tmp_path / "rows.json", "--bytes", encoding, "-O", tmp_path / "copy")
    assert made.returncode == 0
    assert rows(tmp_path / "copy") == rows(source)


def test_cat_counts_values_that_are_not_utf8(source: Path) -> None:
    for output_format in ("json", "csv", "tsv"):
        printed = inside("cat", source, "--format", output_format)
        assert printed.returncode == 0
        assert "not valid UTF-8: 4;" in printed.stderr
        assert "--bytes base64" in printed.stderr
    assert inside("cat", source, "--format", "json", "-o", "1:3").stderr == ""


def test_make_refuses_text_that_it_cannot_restore(source: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(inside("cat", source, "--format", "json").stdout)
    refused = inside("make", "--from", tmp_path / "rows.json", "-O", tmp_path / "copy")
    assert refused.returncode == 2
    assert "--bytes base64" in refused.stderr
    assert not (tmp_path / "copy").exists()


def test_text_is_written_unchanged_if_it_is_meant_literally(tmp_path: Path) -> None:
    line = {"topic": "t", "key": r"\x80", "value": r"\xff", "headers": [["h", r"\x80"]]}
    (tmp_path / "rows.json").write_text(json.dumps(line))
    for part in ("key", "value", "headers"):
        (tmp_path / f"{part}.json").write_text(json.dumps({"topic": "t", "value": "v", part: line[part]}))
        assert inside("make", "--from", tmp_path / f"{part}.json", "-O", tmp_path / part).returncode == 2
    made = inside("make", "--from", tmp_path / "rows.json", "--bytes", "utf8", "-O", tmp_path / "copy")
    assert made.returncode == 0
    (record,) = kafkafmt.open(tmp_path / "copy")["t", 0].records()
    assert (record.key, record.value, record.headers) == (rb"\x80", rb"\xff", (("h", rb"\x80"),))


def test_harmless_text_needs_no_encoding(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"topic": "t", "value": r"C:\xyz \x41"}))
    assert inside("make", "--from", tmp_path / "rows.json", "-O", tmp_path / "copy").returncode == 0


@pytest.mark.parametrize(("encoding", "text"), [("base64", "not base64!"), ("hex", "0g"), ("base64", "x" * 1_000_001)])
def test_invalid_encoded_text_is_refused_in_one_short_line(tmp_path: Path, encoding: str, text: str) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"topic": "t", "value": text}))
    refused = inside("make", "--from", tmp_path / "rows.json", "--bytes", encoding, "-O", tmp_path / "copy")
    assert refused.returncode == 2
    assert f"which is not {encoding}" in refused.stderr
    assert len(refused.stderr) < 400
