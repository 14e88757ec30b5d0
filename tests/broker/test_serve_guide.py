"""Test the guide "Serve log directories to Kafka clients" by running its commands with a real broker."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import java_tools
import pytest
from golden_cases import rows, same_rows
from kafka_broker import Broker, free_ports

import kafkafmt

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "serve.md"
VERSION = "4.3.1"
PLAN = [
    "topic=orders partitions=3 count=900 codec=zstd value=200 batch=4000 content=random",
    "topic=payments count=100 codec=lz4",
    "topic=payments count=20 id=first end=abort",
    "topic=payments count=10 id=first end=commit",
]
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "connect-mirror-maker.sh": "org.apache.kafka.connect.mirror.MirrorMaker",
}
LIMIT = 60.0
pytestmark = [
    pytest.mark.broker,
    pytest.mark.full,  # MirrorMaker 2 takes a minute
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]


def write_scripts(folder: Path) -> None:
    """Write scripts with the names of Kafka's scripts. They run Kafka's classes from Maven."""
    artifacts = [f"org.apache.kafka:{name}:{VERSION}" for name in ("kafka-tools", "kafka_2.13", "connect-mirror")]
    path = java_tools.classpath(*artifacts)
    folder.mkdir()
    flags = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xmx400m", "-XX:TieredStopAtLevel=1"]
    for name, main in TOOLS.items():
        text = f'exec {shlex.join(java_tools.command(main, path=path, flags=flags))} "$@"'
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


def blocks() -> list[str]:
    """Return the shell blocks of the guide, without their indentation."""
    found = re.findall(r"^( *)```sh\n(.*?)^ *```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    return [re.sub(f"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a broker that was stopped, with records and a consumer group."""
    folder = tmp_path_factory.mktemp("old")
    write_scripts(folder / "bin")
    with Broker(folder / "broker") as broker:
        broker.produce(*PLAN)
        group = ["--bootstrap-server", broker.bootstrap, "--group", "billing", "--topic", "orders", "--reset-offsets"]
        tool = folder / "bin" / "kafka-consumer-groups.sh"
        subprocess.run([tool, *group, "--to-offset", "123", "--execute"], check=True, capture_output=True)
        broker.stop()
        yield broker


def test_guide_replays_a_disk_into_a_new_cluster(old: Broker, tmp_path: Path) -> None:
    serve, browse, configure, mirror, compare = blocks()
    (port,) = free_ports(1)
    scripts = old.directory.parent / "bin"
    with Broker(tmp_path / "new", {"auto.create.topics.enable": "true"}) as new:
        environment = os.environ | {
            "DISK": str(old.log_dirs[0]),
            "BROKER": new.bootstrap,
            "PATH": f"{tmp_path}:{scripts}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        command = tmp_path / "kafkafmt"
        command.write_text(f'#!/bin/bash\nexec {sys.executable} -m kafkafmt "$@"\n')
        command.chmod(0o755)

        def script(text: str) -> list[str]:
            return ["bash", "-eu", "-c", text.replace("127.0.0.1:9092", f"127.0.0.1:{port}")]

        def run(text: str) -> str:
            done = subprocess.run(
                script(text), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
            )
            assert done.returncode == 0, done
            return done.stdout

        def background(text: str) -> subprocess.Popen[str]:
            text = text.strip().removesuffix("&")
            return subprocess.Popen(
                script(f"exec {text}"), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
            )

        started = [background(serve)]
        try:
            assert started[0].stdout is not None
            assert started[0].stdout.readline() == f"serving 4 partitions of 2 topics on 127.0.0.1:{port}\n"
            printed = run(browse)
            assert "Topic: orders" in printed
            assert re.search(r"billing +orders +1 +123 ", printed)
            run(configure)
            started.append(background(mirror))
            old_ends = run(compare.replace('"$BROKER"', f"127.0.0.1:{port}"))
            want = rows(old_rows(old))
            deadline = time.monotonic() + LIMIT
            while len(found := copied(new)) < len(want) and time.monotonic() < deadline:
                assert started[-1].poll() is None, (tmp_path / "mm2.log").read_text()
                time.sleep(1)
            assert old_ends.count("\n") == 4
            keyed = sorted((at[:2], *row) for at, row in want.items())
            same_rows({("", 0, n): list(row) for n, row in enumerate(keyed)}, {("", 0, n): list(row) for n, row in enumerate(found)})  # fmt: skip
        finally:
            for process in started:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:  # while it starts, MirrorMaker 2 may not react to SIGTERM
                    process.kill()
                    process.wait()
                assert process.stdout is not None
                process.stdout.close()


def old_rows(old: Broker) -> Iterator[str]:
    done = subprocess.run(
        [sys.executable, "-m", "kafkafmt", "cat", str(old.log_dirs[0]), "-t", "orders", "-t", "payments"]
        + ["--format", "json", "--bytes", "base64", "--isolation", "read_committed"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    yield from done.stdout.splitlines()


def copied(new: Broker) -> list[tuple[object, ...]]:
    """Return the records in the new cluster without their offsets, in the form of `rows`."""
    log = kafkafmt.open(new.log_dirs)
    names = [p for p in log.partitions if p.topic in ("orders", "payments")]
    found = rows(
        line
        for p in names
        for line in subprocess.run(
            [
                sys.executable,
                "-m",
                "kafkafmt",
                "cat",
                str(p.log.directory.path),
                "--format",
                "json",
                "--bytes",
                "base64",
            ],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        ).stdout.splitlines()
    )
    return sorted((at[:2], *row) for at, row in found.items())
