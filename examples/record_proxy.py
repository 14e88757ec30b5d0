"""Record the traffic between Kafka clients and a broker, as input for `kafkafmt decode`.

    python examples/record_proxy.py 19092 HOST:PORT DIRECTORY
    kafkafmt decode --requests DIRECTORY/1.requests --responses DIRECTORY/1.responses

Clients connect to a port on the loopback interface. The frames of connection N are stored unchanged
in two files, N.requests and N.responses.

A broker's responses contain the addresses of the brokers in the cluster. The proxy replaces these
addresses, so that clients connect only to the proxy. The proxy works only with clusters of one broker,
because it connects to only one broker. If the broker cannot be reached, the proxy closes the connection
of the client.

Every frame is forwarded. If its API or version is unknown, or if it cannot be read, it is forwarded
unchanged.
"""

from __future__ import annotations

import itertools
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError

HOST = "127.0.0.1"
NAMES_BROKERS = {
    0: "node_endpoints",
    1: "node_endpoints",
    3: "brokers",
    10: "coordinators",
    60: "brokers",
    78: "node_endpoints",
    79: "node_endpoints",
}
"""Responses that contain broker addresses. API keys are mapped to the fields with the addresses.

Produce and fetch responses contain addresses only if the request had an outdated leader.
"""


class Proxied:
    """A connection of a client to the proxy, and the corresponding connection to the broker."""

    def __init__(self, number: int, client: socket.socket, port: int, broker: tuple[str, int], directory: Path) -> None:
        self.number, self.client, self.port = number, client, port
        self.broker = socket.create_connection(broker)
        self.correlation = protocol.Correlation()
        self.requests, self.responses = (
            open(directory / f"{number}.{kind}", "wb", buffering=0) for kind in ("requests", "responses")
        )

    def run(self) -> None:
        """Forward data in both directions until one side closes its connection."""
        answers = threading.Thread(target=self.pass_on, args=(self.broker, self.client, self.response), daemon=True)
        answers.start()
        self.pass_on(self.client, self.broker, self.request)
        answers.join()
        self.requests.close()
        self.responses.close()

    def pass_on(self, source: socket.socket, target: socket.socket, handle: Any) -> None:
        splitter = protocol.FrameSplitter(max_size=2**31 - 1)
        try:
            while data := source.recv(1 << 16):
                for frame in splitter.feed(data):
                    for buffer in handle(frame):
                        target.sendall(buffer)
        except (OSError, KafkaFormatError) as error:
            print(f"{self.number}: {error}", file=sys.stderr)
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def request(self, frame: memoryview) -> list[Any]:
        self.requests.write(frame)
        try:
            request = protocol.read_request(frame)
        except KafkaFormatError as error:
            self.say(f"request passed on unread: {error}")
            return [frame]
        self.correlation.sent(request)
        note = f", {request.body.why()}" if isinstance(request.body, protocol.UnknownBody) else ""
        self.say(
            f"{request.api or request.api_key} v{request.api_version} #{request.correlation_id} {len(frame)} bytes{note}"
        )
        return [frame]

    def response(self, frame: memoryview) -> list[Any]:
        self.responses.write(frame)
        try:
            response = self.correlation.read_response(frame)
        except KafkaFormatError as error:
            self.say(f"response passed on unread: {error}")
            return [frame]
        if isinstance(response.body, protocol.UnknownBody):
            self.say(f"response #{response.correlation_id}: {response.body.why()}")
            return [frame]
        if response.api_key not in NAMES_BROKERS:
            return [frame]
        brokers = getattr(response.body, NAMES_BROKERS[response.api_key]) or [
            response.body
        ]  # in old versions of FindCoordinator, the body itself contains one address
        named = [broker for broker in brokers if getattr(broker, "host", "")]
        for broker in named:
            broker.host, broker.port = HOST, self.port
        return protocol.write_response(response) if named else [frame]

    def say(self, message: str) -> None:
        print(f"{self.number}: {message}", flush=True)


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    port, address, directory = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    host, _, broker_port = address.rpartition(":")
    directory.mkdir(parents=True, exist_ok=True)
    with socket.create_server((HOST, port)) as server:
        port = server.getsockname()[1]  # port 0 means any free port
        print(f"listening on {HOST}:{port}", flush=True)
        for number in itertools.count(1):
            client, _ = server.accept()
            try:
                proxied = Proxied(number, client, port, (host, int(broker_port)), directory)
            except OSError as error:
                print(f"{number}: cannot connect to {address}: {error}", file=sys.stderr, flush=True)
                client.close()
                continue
            threading.Thread(target=proxied.run, daemon=True).start()


if __name__ == "__main__":
    main()
