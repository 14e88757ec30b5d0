"""Run a Kafka cluster on one machine: a KRaft controller and three brokers, each in its own process.

    with Cluster(directory) as cluster:
        cluster.produce("topic=a partitions=2 replicas=3 count=100 acks=all")
        cluster.brokers[2].stop()
        cluster.wait_until("a", leader=1, in_sync={1, 3})
    cluster.brokers[1].log_dirs                  # the files of broker 1

The controller stays running while brokers are stopped and killed, so it can elect leaders.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from kafka_broker import VERSION, Broker, BrokerError, free_ports

CONTROLLER = 100
NODES = (1, 2, 3)
SMALL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WAIT_LIMIT = 90.0

# A killed broker is fenced after 6 s. A clean shutdown removes it from the in-sync replicas at once.
SETTINGS = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "unclean.leader.election.enable": "true",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


@dataclass(frozen=True)
class PartitionState:
    """The leader of a partition, or -1, and its in-sync replicas."""

    leader: int
    in_sync: frozenset[int]


class Node(Broker):
    """One process of a cluster: the controller, or a broker."""

    def __init__(self, directory: Path, node: int, controller_port: int, version: str) -> None:
        roles = "controller" if node == CONTROLLER else "broker"
        settings = SETTINGS | {"node.id": str(node), "process.roles": roles}
        super().__init__(directory, settings, version=version, jvm=SMALL_JVM)
        self.node = node
        self._controller_port = controller_port

    def values(self) -> dict[str, str]:
        known = {
            "log.dirs": str(self.log_dirs[0]),
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self._controller_port}",
        }
        if self.node == CONTROLLER:
            self.port = self._controller_port
            return known | {"listeners": f"QUORUM://127.0.0.1:{self.port}"}
        (self.port,) = free_ports(1)
        address = f"CLIENT://127.0.0.1:{self.port}"
        return known | {"listeners": address, "advertised.listeners": address}

    def is_ready(self) -> bool:
        """Return whether the controller accepts connections, or the broker is registered in the cluster."""
        try:
            if self.node == CONTROLLER:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return True
            return self.port in describe(self.port, "")[0].values()
        except OSError:
            return False


class Cluster:
    """A controller and three brokers that keep their files in `directory`."""

    def __init__(self, directory: Path, *, version: str = VERSION) -> None:
        (port,) = free_ports(1)
        self.controller = Node(directory / "controller", CONTROLLER, port, version)
        self.brokers: Mapping[int, Node] = {n: Node(directory / f"broker-{n}", n, port, version) for n in NODES}

    def __enter__(self) -> Cluster:
        try:
            for node in (self.controller, *self.brokers.values()):
                node.directory.mkdir(parents=True, exist_ok=True)
                node.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes that are running."""
        for node in (*self.brokers.values(), self.controller):
            node.close()

    @property
    def running(self) -> Node:
        """The first broker that is running. Clients connect to it."""
        return next(node for node in self.brokers.values() if node.running)

    def produce(self, *plan: str) -> None:
        """Execute a plan in the format of Produce.java."""
        self.running.produce(*plan)

    def consume(self, *topics: str, committed: bool = False) -> list[str]:
        """Read whole topics with the Java consumer, and return JSON lines in the format of tests/golden."""
        return self.running.consume(*topics, committed=committed)

    def wait_until(self, *topics: str, leader: int, in_sync: set[int]) -> None:
        """Wait until each partition of the topics has this leader and exactly these in-sync replicas."""
        expected = {PartitionState(leader, frozenset(in_sync))}
        deadline = time.monotonic() + WAIT_LIMIT
        while True:
            states = {topic: describe(self.running.port, topic)[1] for topic in topics}
            if all(set(found.values()) == expected for found in states.values()):
                return
            if time.monotonic() > deadline:
                raise BrokerError(f"the leader is not {leader} with the in-sync replicas {in_sync}: {states}")
            time.sleep(0.2)


def describe(port: int, topic: str) -> tuple[dict[int, int], dict[int, PartitionState]]:
    """Return the port of each broker by its id, and the state of each partition of a topic.

    The broker is asked with a metadata request of version 1. Without a topic, only brokers are returned.
    """
    names = [topic.encode()] if topic else []
    request = struct.pack(">hhihi", 3, 1, 7, -1, len(names))
    request += b"".join(struct.pack(">h", len(name)) + name for name in names)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        fields = Fields(connection.recv(size, socket.MSG_WAITALL))
    fields.number("i")
    brokers = {}
    for _ in range(fields.number("i")):
        node = fields.number("i")
        fields.text()
        brokers[node] = fields.number("i")
        fields.text()
    fields.number("i")
    partitions: dict[int, PartitionState] = {}
    for _ in range(fields.number("i")):
        fields.number("h")
        fields.text()
        fields.number("b")
        for _ in range(fields.number("i")):
            _, partition, leader = fields.number("h"), fields.number("i"), fields.number("i")
            _, in_sync = fields.numbers(), fields.numbers()
            partitions[partition] = PartitionState(leader, frozenset(in_sync))
    return brokers, partitions


class Fields:
    """Read the fields of a response in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._data, self._at)
        self._at += struct.calcsize(f">{kind}")
        return int(value)

    def numbers(self) -> list[int]:
        return [self.number("i") for _ in range(self.number("i"))]

    def text(self) -> str:
        start = self._at + 2
        self._at = start + max(self.number("h"), 0)
        return self._data[start : self._at].decode()
