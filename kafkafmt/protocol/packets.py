"""Read the TCP segments in packet captures: files in the formats pcap and pcapng.

dpkt decodes packets and the headers of both formats. Its readers of whole files are not used: they
ignore all interfaces of a pcapng file but the first, and return an incomplete packet like any other.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from ..errors import StructureError
from ..support.extras import install_line
from ..support.text import counted

SYN, FIN, RST, ACK = 2, 1, 4, 16
MAX_PACKET_BYTES = 1 << 28
"""Largest packet that is read, in bytes. The limit of libpcap is half of it."""
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
RESOLUTION, OFFSET = 9, 14
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\3\4": "zip"}

Endpoint = tuple[bytes, int]
"""IP address and port."""


class Segment(NamedTuple):
    """A TCP segment. `micros` is the time of its packet, in microseconds since 1970-01-01 UTC."""

    micros: int
    source: Endpoint
    target: Endpoint
    sequence: int
    acknowledged: int | None
    flags: int
    data: bytes


class PacketReader:
    """Reads the segments of capture files. Packets without a usable segment are counted by reason in `unread`."""

    def __init__(self) -> None:
        try:
            import dpkt
            import dpkt.pcap
            import dpkt.pcapng
        except ImportError as error:
            raise ModuleNotFoundError(f"packet captures need dpkt: {install_line('pcap')}", name="dpkt") from error
        self._dpkt: Any = dpkt
        self.packets: int = 0
        self.segments: int = 0
        self.unread: Counter[str] = Counter()
        self.messages: list[str] = []
        self._links = self._link_types()

    def read(self, stream: BinaryIO, name: str) -> Iterator[Segment]:
        """Yield the segments of a capture file in its order."""
        magic = stream.read(4)
        if magic == SECTION.to_bytes(4, "big"):
            packets = self._pcapng(stream, name)
        elif int.from_bytes(magic, "big") in self._dpkt.pcap.MAGIC_TO_PKT_HDR and len(magic) == 4:
            packets = self._pcap(stream, name, magic)
        else:
            packed = next((packed for start, packed in PACKED.items() if magic.startswith(start[:4])), None)
            what = (
                f"compressed with {packed}; unpack it first"
                if packed
                else f"not a pcap or pcapng file: it starts with {magic!r}"
            )
            raise StructureError(f"{name} is {what}")
        for micros, link, data in packets:
            self.packets += 1
            try:
                segment = self._segment(micros, link, data)
            except Exception:  # for damaged packets, dpkt also raises IndexError, ValueError and others
                self.unread["skipped: the headers are damaged"] += 1
                continue
            if segment is not None:
                self.segments += 1
                yield segment

    def describe_unread(self) -> list[str]:
        """Return a message for each reason for which packets were not read or are incomplete."""
        return [f"{counted(count, 'packet')} {reason}" for reason, count in sorted(self.unread.items())]

    def _pcap(self, stream: BinaryIO, name: str, magic: bytes) -> Iterator[tuple[int, int, bytes]]:
        pcap = self._dpkt.pcap
        head = magic + self._exactly(stream, pcap.FileHdr.__hdr_len__ - 4, name, 4)
        number = int.from_bytes(magic, "big")
        packet_header = pcap.MAGIC_TO_PKT_HDR[number]
        little = packet_header in (pcap.LEPktHdr, pcap.LEPktModHdr)
        file_header = (pcap.LEFileHdr if little else pcap.FileHdr)(head)
        nanos = number in (pcap.TCPDUMP_MAGIC_NANO, pcap.PMUDPCT_MAGIC_NANO)
        position = len(head)
        while start := stream.read(packet_header.__hdr_len__):
            if len(start) < packet_header.__hdr_len__:
                self._truncated(name, position)
                return
            header = packet_header(start)
            self._check_size(header.caplen, name, position)
            data = stream.read(header.caplen)
            if len(data) < header.caplen:
                self._truncated(name, position)
                return
            position += len(start) + len(data)
            fraction = header.tv_usec // 1000 if nanos else header.tv_usec
            yield header.tv_sec * 1_000_000 + fraction, file_header.linktype & 0xFFFF, data

    def _pcapng(self, stream: BinaryIO, name: str) -> Iterator[tuple[int, int, bytes]]:
        start, position, order = SECTION.to_bytes(4, "big") + stream.read(4), 0, ">"
        interfaces: list[tuple[int, int, int]] = []  # link type, units of time per second, offset in seconds
        while start:
            if start[:4] == SECTION.to_bytes(4, "big"):
                order_mark = stream.read(4)
                order = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}.get(order_mark, "")
                if not order:
                    raise StructureError(f"{name} is damaged: the section has no valid byte order", position)
                start += order_mark
                interfaces = []
            if len(start) < 8:
                self._truncated(name, position)
                return
            kind, size = struct.unpack(order + "II", start[:8])
            self._check_size(size, name, position)
            if size < 12 or size % 4:
                raise StructureError(f"{name} is damaged: a block has the size {size}", position)
            block = start + stream.read(size - len(start))
            if len(block) < size:
                self._truncated(name, position)
                return
            if kind == INTERFACE:
                interfaces.append(self._interface(block, order, name, position))
            elif kind in (PACKET, OLD_PACKET) and size >= 32:
                number, high, low, length = struct.unpack(
                    order + ("I" if kind == PACKET else "Hxx") + "III", block[8:24]
                )
                if number >= len(interfaces) or length > size - 32:
                    raise StructureError(f"{name} is damaged: the packet's interface or size is wrong", position)
                link, units, offset = interfaces[number]
                yield ((high << 32 | low) * 1_000_000 // units + offset * 1_000_000), link, block[28 : 28 + length]
            elif kind == SIMPLE_PACKET:
                self.unread["skipped: a Simple Packet Block has no time"] += 1
            position += size
            start = stream.read(8)

    def _interface(self, block: bytes, order: str, name: str, position: int) -> tuple[int, int, int]:
        pcapng = self._dpkt.pcapng
        try:
            found = (pcapng.InterfaceDescriptionBlockLE if order == "<" else pcapng.InterfaceDescriptionBlock)(block)
            options = {option.code: option.data for option in found.opts}
            resolution = options.get(RESOLUTION, b"\6")[0]
            (offset,) = struct.unpack(order + "q", options.get(OFFSET, bytes(8)))
        except Exception as error:  # dpkt also raises struct.error, UnicodeDecodeError and others
            raise StructureError(f"{name} is damaged: an interface cannot be read: {error}", position) from error
        units = (2 if resolution & 128 else 10) ** (resolution & 127)
        return found.linktype, units, offset

    def _exactly(self, stream: BinaryIO, count: int, name: str, position: int) -> bytes:
        data = stream.read(count)
        if len(data) < count:
            raise StructureError(f"{name} ends inside the header of the file", position)
        return data

    def _check_size(self, size: int, name: str, position: int) -> None:
        if size > MAX_PACKET_BYTES:
            raise StructureError(
                f"{name} is damaged: a packet has the size {size}. The packets after it cannot be read", position
            )

    def _truncated(self, name: str, position: int) -> None:
        self.messages.append(f"{name} ends inside a packet, at position {position}; all packets before it were read")

    def _link_types(self) -> dict[int, Callable[[bytes], Any]]:
        """Return a function for each link type (tcpdump.org/linktypes.html) that decodes the packets of the type."""
        dpkt = self._dpkt
        ethernet, ip4, ip6 = dpkt.ethernet.Ethernet, dpkt.ip.IP, dpkt.ip6.IP6

        def raw(data: bytes) -> Any:
            return (ip6 if data[0] >> 4 == 6 else ip4)(data)

        # dpkt decodes the VLAN tags in Ethernet frames, but not those in frames of the type "any" (SLL, SLL2).
        def sll(data: bytes) -> Any:
            return ethernet(bytes(12) + data[14:])

        def sll2(data: bytes) -> Any:
            return ethernet(bytes(12) + data[:2] + data[20:])

        loopback = dpkt.loopback.Loopback
        return {
            **dict.fromkeys((0, 108), loopback), **dict.fromkeys((12, 14, 101), raw),
            1: ethernet, 113: sll, 276: sll2, 228: ip4, 229: ip6,
        }  # fmt: skip

    def _segment(self, micros: int, link: int, data: bytes) -> Segment | None:
        """Decode a packet. Return None if it contains no TCP segment."""
        if link not in self._links:
            self.unread[f"skipped: the link type {link} is not supported"] += 1
            return None
        dpkt = self._dpkt
        ip = found = None
        packet = self._links[link](data)
        while isinstance(packet, dpkt.Packet):  # IP can contain another IP packet
            if isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
                ip, found = packet, packet.data
            packet = packet.data
        if ip is None or ip.p != dpkt.ip.IP_PROTO_TCP:
            return None
        is_ip4 = isinstance(ip, dpkt.ip.IP)
        extensions = [] if is_ip4 else ip.all_extension_headers
        if (ip.mf or ip.offset) if is_ip4 else any(isinstance(e, dpkt.ip6.IP6FragmentHeader) for e in extensions):
            self.unread["skipped: IP fragments are not reassembled"] += 1
            return None
        if not isinstance(found, dpkt.tcp.TCP):
            self.unread["skipped: the headers are damaged"] += 1
            return None
        length = ip.len - (ip.hl << 2) if is_ip4 else ip.plen - sum(e.length for e in extensions)
        if length - (found.off << 2) > len(found.data):
            self.unread[
                "incomplete: the capture has only their first bytes; the option -s 0 of tcpdump captures all"
            ] += 1
        acknowledged = found.ack if found.flags & ACK else None
        ends = (ip.src, found.sport), (ip.dst, found.dport)
        return Segment(micros, *ends, found.seq, acknowledged, found.flags, bytes(found.data))
