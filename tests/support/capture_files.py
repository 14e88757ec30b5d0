"""Build packet captures with dpkt: TCP connections, link layers, and files in the formats pcap and pcapng."""

from __future__ import annotations

import io
import itertools
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import dpkt
from dpkt.sll import SLL
from dpkt.sll2 import SLL2

START = 1_767_225_600.0
"""Time of the first packet: 2026-01-01T00:00 UTC, in seconds. Each packet is captured one millisecond later."""
CLIENT, BROKER = ("10.0.0.7", 50412), ("10.0.0.9", 9092)
CLIENT_6, BROKER_6 = ("2001:db8::7", 50412), ("2001:db8::9", 9092)
SYN, ACK, FIN, RST = dpkt.tcp.TH_SYN, dpkt.tcp.TH_ACK, dpkt.tcp.TH_FIN, dpkt.tcp.TH_RST


class Packet(NamedTuple):
    """An IP packet. `time` is in seconds."""

    time: float
    ip: Any


class Tcp:
    """A TCP connection, whose packets are appended to `packets`. Each method returns the packets that it appended."""

    def __init__(
        self,
        packets: list[Packet],
        client: tuple[str, int] = CLIENT,
        broker: tuple[str, int] = BROKER,
        first: tuple[int, int] = (1000, 5000),
        mss: int = 1460,
    ) -> None:
        self.packets = packets
        self.ends = {"client": client, "broker": broker}
        self.next = {"client": first[0], "broker": first[1]}
        self.mss = mss

    def open(self) -> list[Packet]:
        first = [self._append("client", SYN, acknowledges=False), self._append("broker", SYN | ACK)]
        return [*first, self._append("client", ACK)]

    def client(self, data: bytes) -> list[Packet]:
        return self._send("client", data)

    def broker(self, data: bytes) -> list[Packet]:
        return self._send("broker", data)

    def close(self) -> list[Packet]:
        ends = [self._append("client", FIN | ACK), self._append("broker", FIN | ACK)]
        return [*ends, self._append("client", ACK)]

    def reset(self) -> Packet:
        return self._append("client", RST)

    def acknowledge(self, sender: str) -> Packet:
        return self._append(sender, ACK)

    def _send(self, sender: str, data: bytes) -> list[Packet]:
        return [self._append(sender, ACK, data[start : start + self.mss]) for start in range(0, len(data), self.mss)]

    def _append(self, sender: str, flags: int, data: bytes = b"", acknowledges: bool = True) -> Packet:
        receiver = "broker" if sender == "client" else "client"
        (source, sport), (target, dport) = self.ends[sender], self.ends[receiver]
        segment = dpkt.tcp.TCP(
            sport=sport, dport=dport, seq=self.next[sender], ack=self.next[receiver] if acknowledges else 0,
            flags=flags, data=data,
        )  # fmt: skip
        self.next[sender] = (self.next[sender] + len(data) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        if ":" in source:
            addresses = (socket.inet_pton(socket.AF_INET6, address) for address in (source, target))
            ip = dpkt.ip6.IP6(nxt=6, plen=len(segment), data=segment)
        else:
            addresses = (socket.inet_aton(address) for address in (source, target))
            ip = dpkt.ip.IP(p=6, data=segment)
            ip.len = len(ip)
        ip.src, ip.dst = addresses
        packet = Packet(START + len(self.packets) / 1000, ip)
        self.packets.append(packet)
        return packet


def _ether_type(ip: Any) -> int:
    return 0x86DD if isinstance(ip, dpkt.ip6.IP6) else 0x0800


def _ethernet(ip: Any) -> bytes:
    return bytes(dpkt.ethernet.Ethernet(src=b"\2client", dst=b"\2brokr", type=_ether_type(ip), data=ip))


def _vlan(ip: Any) -> bytes:
    plain = _ethernet(ip)
    return plain[:12] + b"\x88\xa8\0\1\x81\0\0\2" + plain[12:]


LINKS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "ethernet": (1, _ethernet),
    "vlan": (1, _vlan),
    "sll": (113, lambda ip: bytes(SLL(ethtype=_ether_type(ip), data=ip))),
    "sll2": (276, lambda ip: bytes(SLL2(ethtype=_ether_type(ip), data=ip))),
    "sll2-vlan": (
        276,
        lambda ip: bytes(SLL2(ethtype=0x8100)) + b"\0\5" + _ether_type(ip).to_bytes(2, "big") + bytes(ip),
    ),
    "null": (0, lambda ip: (30 if _ether_type(ip) == 0x86DD else 2).to_bytes(4, "little") + bytes(ip)),
    "loop": (108, lambda ip: (30 if _ether_type(ip) == 0x86DD else 2).to_bytes(4, "big") + bytes(ip)),
    "raw": (101, bytes),
    "ip4": (228, bytes),
    "ip6": (229, bytes),
}
"""Link types: the number, and a function that returns the bytes of a packet."""


def pcap(packets: Iterable[Packet], link: str = "ethernet", nano: bool = False) -> bytes:
    """Return the packets as a pcap file."""
    out = io.BytesIO()
    number, wrap = LINKS[link]
    dpkt.pcap.Writer(out, 262144, number, nano).writepkts((time, wrap(ip)) for time, ip in packets)
    return out.getvalue()


def big_endian(capture: bytes) -> bytes:
    """Return a pcap file with its headers in big-endian byte order."""
    out, at = struct.pack(">IHHIIII", *struct.unpack("<IHHIIII", capture[:24])), 24
    while at < len(capture):
        header = struct.unpack("<IIII", capture[at : at + 16])
        out += struct.pack(">IIII", *header) + capture[at + 16 : at + 16 + header[2]]
        at += 16 + header[2]
    return out


def pcapng(packets: Iterable[Packet], *links: str) -> bytes:
    """Return the packets as a pcapng file. Packet n is captured on interface n modulo the number of interfaces."""
    out = io.BytesIO()
    kinds = links or ("ethernet",)
    interfaces = [dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=LINKS[link][0]) for link in kinds]
    writer = dpkt.pcapng.Writer(out, idb=interfaces)
    for (time, ip), (number, link) in zip(packets, itertools.cycle(enumerate(kinds)), strict=False):
        writer.writepkt(dpkt.pcapng.EnhancedPacketBlockLE(iface_id=number, pkt_data=LINKS[link][1](ip)), time)
    return out.getvalue()
