"""Every example of the README, as it stands there: Python in one session from top to bottom, and what is typed in a terminal."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import inside
from golden_cases import case

import kafkafmt
from kafkafmt import protocol

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
TYPED = re.findall(r"^    \$ (kafkafmt .*)$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the README's paths lie here: by a path of it."""
    folder = tmp_path_factory.mktemp("readme")
    with kafkafmt.LogDirectory(folder / "data") as directory:
        for n in range(4):
            directory.writer("orders", n).append([(b"%d" % i, b"value", 1_767_225_600_000 + i) for i in range(100)])
    for group_log in case("internal").roots[0].glob("__consumer_offsets-*"):
        shutil.copytree(group_log, folder / "data" / group_log.name)
    said = conversation()
    for name, frames in (("client.bin", said[0]), ("broker.bin", said[1])):
        (folder / name).write_bytes(frames)
    there = {"/var/lib/kafka/data": "data", "/var/lib/app/log": "app", "/var/lib/kafka/salvaged": "salvaged"}
    there |= {"client.bin": "client.bin", "broker.bin": "broker.bin", "report.json": "report.json"}
    return {"/mnt/broken-disk": str(case("torn").roots[0])} | {name: str(folder / here) for name, here in there.items()}


def conversation() -> tuple[bytes, bytes]:
    """A Fetch request and its response, as bytes on the wire."""
    cls: Any = protocol.FetchResponse
    part = cls.PartitionData(records=kafkafmt.build_batch([(b"k", b"v")]))
    answer = cls(responses=[cls.FetchableTopicResponse(topic="orders", partitions=[part])])
    asked = protocol.write_request(protocol.make_request(protocol.FetchRequest(), 12, 1))
    return b"".join(asked), b"".join(protocol.write_response(protocol.make_response(answer, 12, 1)))


def located(text: str, places: dict[str, str]) -> str:
    for name, here in places.items():
        text = text.replace(name, here)
    return text


class Socket:
    sent = b""

    def sendmsg(self, buffers: list[Any]) -> None:
        self.sent = b"".join(buffers)


def test_the_snippets(spark: Any, places: dict[str, str]) -> None:
    assert len(SNIPPETS) >= 5
    data, answers = conversation()
    session: dict[str, Any] = {"spark": spark, "data": data, "answers": answers, "sock": Socket(), "protocol": protocol}
    for snippet in SNIPPETS:
        exec(compile(located(snippet, places), snippet.splitlines()[0], "exec"), session)
    assert session["df"].count() == 400
    assert session["table"].column("topic").to_pylist() == [""]
    assert protocol.read_request(session["sock"].sent).topics[0].name == "orders"
    assert session["checked"].ok


def test_what_is_typed(places: dict[str, str]) -> None:
    assert len(TYPED) >= 4
    for line in TYPED:
        words = shlex.split(located(line.partition(">")[0], places))
        done = inside(*words[1:])
        assert done.returncode == (1 if "salvage" in line else 0), (line, done.stderr)
        assert done.stdout, line


def test_what_is_named_is_there() -> None:
    for name in set(re.findall(r"`kafkafmt\.([\w.]+)", README)):
        thing: Any = kafkafmt
        for part in name.split("."):
            thing = getattr(thing, part)
    for file in re.findall(r"`((?:examples|tests|benchmarks)/[\w/.]*)`", README):
        assert (Path(__file__).resolve().parents[2] / file).exists(), file
