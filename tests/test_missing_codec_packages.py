"""Check that kafkafmt reads and writes lz4 and zstd data if the packages lz4 and zstandard are not installed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from kafkafmt.codecs import cramjam_lz4, cramjam_zstd

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("test_codecs.py", "test_odd_codec_ends.py", "records/test_odd_ends.py")
STANDARD = "compression.zstd"
HIDDEN = {"lz4 zstandard": STANDARD if sys.version_info >= (3, 14) else "cramjam"}
"""Packages that are hidden, and what then serves zstd."""
if sys.version_info >= (3, 14):
    HIDDEN[f"lz4 zstandard {STANDARD}"] = "cramjam"


def run(arguments: list[str], hidden: str) -> subprocess.CompletedProcess[str]:
    """Run Python without the packages `hidden`."""
    support = [str(ROOT), str(ROOT / "tests" / "support")]
    env = {**os.environ, "KAFKAFMT_HIDDEN": hidden, "PYTHONPATH": os.pathsep.join(support)}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_codec_tests_pass_without_the_packages(hidden: str) -> None:
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-x"]
    done = run(["-m", "pytest", "-p", "hidden_packages", *plain, *(f"tests/{name}" for name in TESTS)], hidden)
    assert done.returncode == 0, done.stdout


COMMAND = "import hidden_packages, sys; hidden_packages.hide_versions(); from kafkafmt.cli import main; main()"


@pytest.mark.parametrize("hidden", HIDDEN)
def test_command_says_what_serves_each_codec(hidden: str) -> None:
    version = run(["-c", COMMAND, "--version"], hidden)
    assert version.returncode == 0, version.stderr
    assert "lz4: not installed; cramjam is used" in version.stdout.splitlines()
    assert f"zstandard: not installed; {HIDDEN[hidden]} is used" in version.stdout.splitlines()
    doctor = run(["-c", COMMAND, "doctor"], hidden)
    assert doctor.returncode == 0, doctor.stderr
    assert "lz4 (cramjam)" in doctor.stdout
    (required,) = [line for line in doctor.stdout.splitlines() if line.startswith("(required)")]
    assert required.split()[1:] == ["yes"]


def test_compressed_segment_needs_a_package_that_reads_files(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log.zst").write_bytes(zstandard.compress(b"x"))
    done = run(["-c", COMMAND, "verify", str(path)], f"lz4 zstandard {STANDARD}")
    assert done.returncode == 3
    assert "zstandard>=" in done.stderr


def test_lz4_frames_are_those_of_lz4() -> None:
    rng = random.Random(1)
    words = [rng.randbytes(rng.randint(1, 12)) for _ in range(300)]
    for n in (0, 1, 10, 1000, 30_000):
        data = b"".join(rng.choices(words, k=n))
        for level in (0, 3, 9, 12):
            frame = cramjam_lz4.compress(data, level, block_size=4, block_linked=False, store_size=False)
            assert lz4.frame.decompress(frame) == data
            assert frame[:7] == lz4.frame.compress(data, block_size=4, block_linked=False, store_size=False)[:7]


def result(module: object, frame: bytes) -> bytes | str:
    """Return the content of a frame, or the name of the error."""
    chunk = module.decompress_chunk  # type: ignore[attr-defined]
    context, rest, content, done = module.create_decompression_context(), memoryview(frame), b"", False  # type: ignore[attr-defined]
    try:
        while not done:
            part, used, done = chunk(context, rest, max_length=100_000)
            content, rest = content + part, rest[used:]
            if not (part or used or done):
                return "incomplete"
    except RuntimeError as error:
        return str(error).rpartition(" ")[2]
    return content


def test_lz4_frames_are_read_as_by_lz4() -> None:
    rng = random.Random(2)
    words = [rng.randbytes(rng.randint(1, 12)) for _ in range(300)]
    for i in range(300):
        data = b"".join(rng.choices(words, k=rng.choice((1, 10, 1000, 30_000))))
        options = {
            name: rng.random() < 0.5 for name in ("block_linked", "content_checksum", "block_checksum", "store_size")
        }
        frame = bytearray(lz4.frame.compress(data, rng.choice((0, 9)), block_size=rng.choice((4, 5, 7)), **options))
        assert result(cramjam_lz4, bytes(frame)) == data
        for _ in range(i % 3):
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
        if i % 5 == 0:
            del frame[rng.randrange(len(frame)) :]
        assert result(cramjam_lz4, bytes(frame)) == result(lz4.frame, bytes(frame))


@pytest.mark.parametrize("level", [-5, 1, 3, 19])
def test_zstd_frames_are_those_of_zstandard(level: int) -> None:
    for data in (b"", b"a", b"word " * 40_000):
        frame = cramjam_zstd.ZstdCompressor(level).compress(data)
        assert zstandard.decompress(frame) == data
        assert zstandard.frame_content_size(frame) == cramjam_zstd.frame_content_size(frame) == len(data)
