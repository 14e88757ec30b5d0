"""Compare reading a topic from `kafkafmt serve` with reading it from a real broker, with the same clients.

    python benchmarks/serve_clients.py [--topics none lz4] [--clients librdkafka java kcat] [--rounds 3] [--warm-ups 3] [--floor]

The broker and the server read the same directory, and take turns. The broker has its default
settings, and the flags of the JVM that `kafka-server-start.sh` sets. Each client first reads the topic
several times from the broker, so that the broker's code is compiled. After only one such read, the
next reads still took up to twice the CPU time of later reads.

The server is measured twice in each round: `first` is a new process, which checks the CRC of each
batch, and `again` is the next read of the same process. The CPU time is that of the whole process
of the broker or the server, in user and kernel mode. The time of the client is measured inside the
client, from the start of its consumer to its last record.

With --floor, each client also reads the topic from `serve_floor.py`. Its CPU time is the least that a
Python program needs to send the bytes (`floor`), or to check and send them (`floor+crc`).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tests" / "broker")]

import java_tools  # noqa: E402
import topics  # noqa: E402
from kafka_broker import VERSION, Broker  # noqa: E402

BROKER_JVM = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""Flags of the JVM in Kafka's `kafka-server-start.sh` and `kafka-run-class.sh`."""
BROKER_SETTINGS = {"num.network.threads": "3", "num.io.threads": "8"}
"""Default values of settings that the broker of the tests changes."""
CONSUMER = """
import json, sys, time
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "benchmark", "enable.auto.commit": False,
                     "fetch.queue.backoff.ms": 10})  # with the default of 1000, the client mostly waits
started = time.perf_counter()
consumer.assign([TopicPartition(sys.argv[2], 0, 0)])
left = int(sys.argv[3])
while left:
    for message in consumer.consume(min(left, 10_000), 10):
        assert message.error() is None, message.error()
        left -= 1
print(time.perf_counter() - started)
"""
TICKS = os.sysconf("SC_CLK_TCK")
FETCH_SECONDS = 7
"""Position in the output of ConsumerPerformance of the time for fetching, in ms, without joining the group."""


def read_librdkafka(address: str, topic: str, records: int) -> float:
    """Read a topic with confluent-kafka, and return the seconds that the client took."""
    command = [sys.executable, "-c", CONSUMER, address, topic, str(records)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=170).stdout)


def read_kcat(address: str, topic: str, records: int) -> float:
    """Read a topic with kcat, and return the seconds that the client took."""
    command = ["kcat", "-C", "-b", address, "-t", topic, "-o", "beginning", "-c", str(records), "-q", "-f", ""]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=170)
    return time.perf_counter() - started


def read_java(address: str, topic: str, records: int) -> float:
    """Read a topic with Kafka's ConsumerPerformance, and return the seconds that the client took."""
    path = java_tools.classpath(f"org.apache.kafka:kafka-tools:{VERSION}", f"org.apache.kafka:kafka_2.13:{VERSION}")
    tool, group = "org.apache.kafka.tools.ConsumerPerformance", f"benchmark-{time.time_ns()}"
    options = ("--topic", topic, "--num-records", records, "--group", group, "--timeout", 30_000)
    output = java_tools.run(tool, "--bootstrap-server", address, *options, path=path, flags=("-Xmx512m",))
    values = output.strip().splitlines()[-1].split(",")
    return int(values[FETCH_SECONDS]) / 1000


CLIENTS: dict[str, Callable[[str, str, int], float]] = {
    "librdkafka": read_librdkafka,
    "java": read_java,
    "kcat": read_kcat,
}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def serve_command(directory: Path, topic: str) -> list[str]:
    """Return the command that runs `kafkafmt serve`."""
    command = [sys.executable, "-m", "kafkafmt", "serve", str(directory), "-t", topic, "--listen", "127.0.0.1:0"]
    return [*command, "--format", "json"]


def floor_command(directory: Path, topic: str) -> list[str]:
    """Return the command that runs `serve_floor.py`."""
    return [sys.executable, str(ROOT / "benchmarks" / "serve_floor.py"), str(directory), topic]


@contextmanager
def running(command: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Run a server, and yield its address and its process id."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield f"{ready['host']}:{ready['port']}", process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def measure(client: str, address: str, pid: int, topic: str, records: int) -> tuple[float, float]:
    """Return the seconds that a client took to read a topic, and the CPU seconds of the server process."""
    before = cpu_seconds(pid)
    seconds = CLIENTS[client](address, topic, records)
    return seconds, cpu_seconds(pid) - before


def compare(broker: Broker, directory: Path, topic: str, client: str, rounds: int, warm_ups: int, floor: bool) -> None:
    """Measure the broker and the server in turns, and print each round, the medians and the ratios."""
    records = topics.TOPICS[topic].count(1 << 30)
    found: dict[str, list[tuple[float, float]]] = {"broker": [], "first": [], "again": []}
    floors = {"floor": [], "floor+crc": ["--check"]} if floor else {}
    found |= {name: [] for name in floors}
    for _ in range(warm_ups):
        measure(client, broker.bootstrap, broker.pid, topic, records)
    for _ in range(rounds):
        found["broker"].append(measure(client, broker.bootstrap, broker.pid, topic, records))
        with running(serve_command(directory, topic)) as (address, pid):
            found["first"].append(measure(client, address, pid, topic, records))
            found["again"].append(measure(client, address, pid, topic, records))
        for name, flags in floors.items():
            with running([*floor_command(directory, topic), *flags]) as (address, pid):
                found[name].append(measure(client, address, pid, topic, records))
    for name, values in found.items():
        rows = "  ".join(f"{seconds:5.2f}/{cpu:4.2f}" for seconds, cpu in values)
        speed = spread([b[0] / s[0] for b, s in zip(found["broker"], values, strict=True)])
        cpu = spread([s[1] / b[1] for b, s in zip(found["broker"], values, strict=True)])
        print(f"{topic:8} {client:10} {name:9}  {rows}   speed {speed}  CPU {cpu}", flush=True)


def spread(ratios: list[float]) -> str:
    """Return the median of ratios, and their first and third quartile."""
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return f"{middle:4.2f} ({low:4.2f}-{high:4.2f})"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one line for each topic, client and server."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--topics", nargs="+", default=["none", "lz4"], choices=list(topics.TOPICS))
    parser.add_argument("--clients", nargs="+", default=["librdkafka", "java"], choices=list(CLIENTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=3)
    parser.add_argument("--floor", action="store_true", help="also measure serve_floor.py")
    options = parser.parse_args(argv)
    directories = topics.ensure(*options.topics)
    home = topics.folder()
    print(
        "seconds of the client / CPU seconds of the server process in each round; medians (quartiles) of the ratios to the broker"
    )
    with Broker(home, BROKER_SETTINGS, jvm=BROKER_JVM) as broker:
        for topic in options.topics:
            for client in options.clients:
                compare(
                    broker, directories[topic].parent, topic, client, options.rounds, options.warm_ups, options.floor
                )


if __name__ == "__main__":
    main()
