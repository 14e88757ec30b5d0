"""Test that a topic name that is not UTF-8 is reported in one line, before Spark starts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from command import inside
from golden_cases import case

import kafkafmt


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    os.mkdir(tmp_path / "log")
    for name in (b"caf\xe9-0", b"plain-0"):
        shutil.copytree(
            case("codecs").roots[0] / "codec-none-0", os.fsdecode(os.fsencode(tmp_path / "log") + b"/" + name)
        )
    return tmp_path / "log"


def test_export_names_a_topic_that_is_not_utf8(odd: Path, tmp_path: Path) -> None:
    done = inside("export", odd, "--output", tmp_path / "out")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1), done.stderr
    assert "the topic name 'caf\\udce9' is not valid UTF-8" in done.stderr
    assert str(odd) in done.stderr
    assert not (tmp_path / "out").exists()


def test_export_of_other_topics_ignores_such_a_name(odd: Path, tmp_path: Path) -> None:
    from kafkafmt.exporting import ExportOptions
    from kafkafmt.exporting.job import Export
    from kafkafmt.log import discover

    found = discover([odd])
    options = ExportOptions((odd,), tmp_path / "out")
    Export(found, [d for d in found.partitions if d.topic == "plain"], options)
    with pytest.raises(OSError, match="is not valid UTF-8"):
        Export(found, found.partitions, options)


def test_arrow_names_a_topic_that_is_not_utf8(odd: Path) -> None:
    partition = kafkafmt.open(odd)["caf\udce9", 0]
    with pytest.raises(ValueError, match=r"topic name 'caf\\udce9'.* is not valid UTF-8.*omit the column"):
        partition.to_arrow()
    assert partition.to_arrow(["offset", "value"]).num_rows == len(list(partition))
