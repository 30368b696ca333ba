"""A DNS server on a UDP port of the loopback that answers what a test says."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

A, AAAA = 1, 28
NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3
_RESPONSE = 0x8180  # an answer, recursion asked for and available
_HEADER = struct.Struct("!6H")
_POINTER_TO_QUESTION = b"\xc0\x0c"
_INTERNET = 1


@dataclass(slots=True)
class Zone:
    """What a name has: addresses of both families, their time to live; or why there are none."""

    addresses: list[str] = field(default_factory=list)
    ttl_s: int = 300
    code: int = NO_ERROR
    is_silent: bool = False


class DnsServer(asyncio.DatagramProtocol):
    """State: the zones, and the names that were asked for."""

    def __init__(self, zones: Mapping[str, Zone]) -> None:
        self.zones = dict(zones)
        self.asked: list[tuple[str, int]] = []
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def server(self) -> str:
        """As the setting names it."""
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 0)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._transport is not None
        self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, kind, question = _question(data)
        self.asked.append((name, kind))
        zone = self.zones.get(name, Zone(code=NO_SUCH_NAME))
        if zone.is_silent:
            return
        answers = [_record(address, zone.ttl_s) for address in zone.addresses if _is(address, kind)]
        (number,) = struct.unpack_from("!H", data)
        head = _HEADER.pack(number, _RESPONSE | zone.code, 1, len(answers), 0, 0)
        assert self._transport is not None
        self._transport.sendto(head + question + b"".join(answers), addr)


def _question(data: bytes) -> tuple[str, int, bytes]:
    at, labels = _HEADER.size, []
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    (kind,) = struct.unpack_from("!H", data, at + 1)
    return ".".join(labels).lower(), kind, data[_HEADER.size : at + 5]


def _is(address: str, kind: int) -> bool:
    return (AAAA if ":" in address else A) == kind


def _record(address: str, ttl_s: int) -> bytes:
    family, kind = (socket.AF_INET6, AAAA) if ":" in address else (socket.AF_INET, A)
    packed = socket.inet_pton(family, address)
    rest = struct.pack("!HHIH", kind, _INTERNET, ttl_s, len(packed))
    return _POINTER_TO_QUESTION + rest + packed
