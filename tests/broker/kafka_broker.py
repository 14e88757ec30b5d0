"""Run a real Kafka broker from Maven's JAR files: one KRaft node on free loopback ports.

java, javac and mvn are required.

    with Broker() as broker:                             # stopped cleanly at the end
        broker.produce("topic=a codec=zstd count=1000 value=100", "topic=b id=tx count=5 end=abort")
        lines = broker.consume("a", "b", committed=True)
    broker.log_dirs                                      # its files; removed by close() if the directory is temporary

Produce.java describes the plan that `produce` executes. This command runs a broker until Enter is
pressed:

    python tests/broker/kafka_broker.py DIRECTORY [KEY=VALUE…]
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import java_tools

VERSION = "4.3.1"
CLUSTER_ID = "kafkafmtTestCluster000"
"""16 bytes in base64."""
HERE = Path(__file__).resolve().parent
FAST_START_JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)  # with this setting, the JVM starts twice as fast, and runs at half the speed
FAST_JVM = ("-Xmx1g", "-XX:+UseParallelGC")
HELPERS = {"Produce.java": [HERE / "Content.java"]}
START_LIMIT = STOP_LIMIT = 90.0

# A single node holds all replicas. Retention by time and automatic creation of topics are disabled.
# Kafka's internal topics have few partitions.
SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "QUORUM",
    "listener.security.protocol.map": "QUORUM:PLAINTEXT,CLIENT:PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "group.initial.rebalance.delay.ms": "0",
    "num.io.threads": "4",
    "num.network.threads": "2",
} | {
    f"{topic}.{setting}": "1"
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    for setting in ("num.partitions", "replication.factor")
}
SETTINGS |= {"transaction.state.log.min.isr": "1", "share.coordinator.state.topic.min.isr": "1"}


class BrokerError(RuntimeError):
    """Raised if the broker does not start or stop as expected."""


class Broker:
    """A broker that keeps its files in `directory` between starts. By default, this is a temporary directory.

    If `dynamic_quorum` is True, the voters are stored in the metadata log (KIP-853), and the broker can
    be started only once.
    """

    def __init__(
        self,
        directory: Path | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        version: str = VERSION,
        data: Sequence[str] = ("data",),
        jvm: Sequence[str] = FAST_START_JVM,
        dynamic_quorum: bool = False,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="kafkafmt-broker-") if directory is None else None
        self.directory = Path(self._temporary.name if self._temporary else directory or ".").resolve()
        self.log_dirs = [self.directory / name for name in data]
        self.jvm = jvm
        self.port = 0
        self._dynamic_quorum = dynamic_quorum
        self._cluster_id = cluster_id
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._path = java_tools.classpath(f"org.apache.kafka:kafka_2.13:{version}")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Id of the broker's process. The broker must be running."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Broker:
        """Start the broker, and wait until it accepts requests."""
        if self.running:
            return self
        properties = self._configure()
        if not (self.log_dirs[0] / "meta.properties").exists():
            flags = ["--standalone"] if self._dynamic_quorum else []
            self.java(
                "kafka.tools.StorageTool", "format", *flags, "--cluster-id", self._cluster_id, "--config", properties
            )
        output = self.directory / "broker.log"
        with output.open("ab") as log:
            verbose = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
            argv = java_tools.command("kafka.Kafka", properties, path=self._path, flags=[verbose, *self.jvm])
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_LIMIT
        while not self.is_ready():
            if not self.running or time.monotonic() > deadline:
                self.kill()
                raise BrokerError(
                    f"the broker did not start; its log ends with:\n{output.read_text(errors='replace')[-3000:]}"
                )
            time.sleep(0.1)
        return self

    def is_ready(self) -> bool:
        """Return whether the broker answers requests and is registered."""
        return has_brokers(self.port)

    def values(self) -> dict[str, str]:
        """Choose free ports, and return the settings that depend on them and on the directory."""
        self.port, quorum = free_ports(2)
        values = {
            "listeners": f"CLIENT://127.0.0.1:{self.port},QUORUM://127.0.0.1:{quorum}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{self.port}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
        }
        if self._dynamic_quorum:
            values["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{quorum}"
        else:
            values["controller.quorum.voters"] = f"1@127.0.0.1:{quorum}"
        return values

    def _configure(self) -> Path:
        """Write the broker's properties file."""
        values = SETTINGS | self.values() | self._settings
        for folder in self.log_dirs:
            folder.mkdir(parents=True, exist_ok=True)
        file = self.directory / "broker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return file

    def stop(self) -> None:
        """Stop the broker cleanly. It flushes all data, trims its indexes, and writes a clean shutdown file."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                self.kill()
                raise BrokerError(f"the broker did not stop within {STOP_LIMIT:.0f} s") from None
            self._process = None

    def kill(self) -> None:
        """Kill the broker with SIGKILL.

        The index files then keep the zeros at their end, and there is no clean shutdown file.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Kill the broker if it is running, and remove its directory if it is a temporary one."""
        self.kill()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def java(self, main: str, *args: object, stdin: str | None = None) -> str:
        """Run a Kafka class, or a Java source file of the tests, and return its output."""
        path = self._path
        if main.endswith(".java"):
            source = Path(main) if Path(main).is_absolute() else HERE / main
            main, path = source.stem, java_tools.compile_java([source, *HELPERS.get(source.name, ())], path)
        return java_tools.run(main, *args, path=path, flags=self.jvm, stdin=stdin)

    def produce(self, *plan: str) -> None:
        """Execute a plan in the format of Produce.java, with one job per line."""
        self.java("Produce.java", self.bootstrap, stdin="\n".join(plan))

    def consume(self, *topics: str, committed: bool = False) -> list[str]:
        """Read whole topics with the Java consumer, and return JSON lines in the format of tests/golden."""
        level = "read_committed" if committed else "read_uncommitted"
        return self.java("Consume.java", self.bootstrap, level, *topics).splitlines()


def free_ports(count: int) -> list[int]:
    """Return different ports that are free."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def has_brokers(port: int) -> bool:
    """Return whether a node answers a metadata request and is registered as a broker."""
    # Metadata request, version 1: correlation id 7, no client id, no topics
    request = struct.pack(">hhihi", 3, 1, 7, -1, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 12 and bool(struct.unpack(">iii", answer)[2])


def main(argv: Sequence[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        raise SystemExit(__doc__)
    with Broker(Path(argv[0]), dict(pair.split("=", 1) for pair in argv[1:])) as broker:
        print(
            f"bootstrap.servers={broker.bootstrap}, logs in {', '.join(map(str, broker.log_dirs))}; Enter stops it",
            flush=True,
        )
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1:])
