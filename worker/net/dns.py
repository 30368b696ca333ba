"""DNS by c-ares: one resolver per process, a cache, one question per name at a time.

/etc/hosts is used. A URL's host is a complete name: search domains are not tried.
"""

import socket
import time
from collections.abc import Sequence

import aiodns
import pycares
from aiodns import error as ares

from manyhands.shared.single_flight import SingleFlight
from manyhands.worker.net.dns_cache import DnsCache, DnsEntry
from manyhands.worker.net.fetcher import TemporaryFetchError

# Of one question to one server, in seconds; each is asked twice.
QUESTION_TIMEOUT_S = 2.0
TRIES = 2
_FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_EDNS
NO_SUCH_HOST = "dns: no such host"
NO_ADDRESS = "dns: no address"
_MISSING = {ares.ARES_ENOTFOUND: NO_SUCH_HOST, ares.ARES_ENODATA: NO_ADDRESS}
_FAILURES = {ares.ARES_ETIMEOUT: "time-out: dns", ares.ARES_EBADNAME: "dns: bad name"}


class Dns:
    """State: the resolver, made with the first question; the cache; questions under way."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        """`servers` such as 127.0.0.1:5353; none for the system's."""
        self._servers = servers
        self._cache = DnsCache()
        self._resolver: aiodns.DNSResolver | None = None
        self._questions: SingleFlight[DnsEntry] = SingleFlight("dns of")

    async def addresses(self, host: str) -> Sequence[str]:
        entry = self._cache.get(host, time.monotonic())
        if entry is None:
            entry = await self._questions.run(host, lambda: self._ask(host))
        if entry.failure:
            what = entry.failure.removeprefix("dns: ")
            raise TemporaryFetchError(f"DNS of {host}: {what}", reason=entry.failure)
        return entry.addresses

    async def close(self) -> None:
        await self._questions.close()
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def _ask(self, host: str) -> DnsEntry:
        if self._resolver is None:
            self._resolver = aiodns.DNSResolver(
                self._servers, timeout=QUESTION_TIMEOUT_S, tries=TRIES, flags=_FLAGS
            )
        try:
            found = await self._resolver.getaddrinfo(host, socket.AF_UNSPEC)
        except ares.DNSError as error:
            return self._without_address(host, error.args[0])
        addresses = [_text(node.addr[0]) for node in found.nodes]
        if not addresses:
            return self._cache.missing(host, NO_ADDRESS, time.monotonic())
        ttl_s = min(node.ttl for node in found.nodes)
        return self._cache.found(host, addresses, ttl_s, time.monotonic())

    def _without_address(self, host: str, code: int) -> DnsEntry:
        if code in _MISSING:
            return self._cache.missing(host, _MISSING[code], time.monotonic())
        failure = _FAILURES.get(code, "dns: server failure")
        return self._cache.failed(host, failure, time.monotonic())


def _text(address: bytes | str) -> str:
    return address.decode() if isinstance(address, bytes) else address
