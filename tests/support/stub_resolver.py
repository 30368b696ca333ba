"""DNS without a network: what a test says that names mean."""

import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

Addresses = Sequence[str]


class StubResolver(AbstractResolver):
    """Each name gives its lists of addresses one after the other, then the last one for ever; `*`
    is for all other names. State: the names that were asked for."""

    def __init__(self, names: Mapping[str, Sequence[Addresses]]) -> None:
        self._names = {name: list(lists) for name, lists in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        lists = self._names.get(host, self._names.get("*"))
        if lists is None:
            raise OSError(socket.EAI_NONAME, "Name or service not known")
        addresses = lists.pop(0) if len(lists) > 1 else lists[0]
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Nothing is open."""


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST,
    )
