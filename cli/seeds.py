"""The URLs on the command line, and what is wrong with them: reported before anything starts."""

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from manyhands.shared.errors import InvalidUrl, ManyhandsError
from manyhands.shared.urls import Url, parse_url

# The most hosts looked up before the start; a newcomer gives fewer.
MOST_LOOKED_UP = 20


class UsageError(ManyhandsError):
    """The command line makes no sense."""


def read_urls(texts: Iterable[str]) -> list[Url]:
    """Raises UsageError."""
    urls = []
    for text in texts:
        try:
            urls.append(parse_url(text))
        except InvalidUrl as error:
            raise UsageError(f"{text!r} is not a URL: {error}{_hint(text)}") from None
    return urls


def _hint(text: str) -> str:
    if "://" in text:
        return ""
    try:
        return f" (did you mean {parse_url(f'https://{text}').text} ?)"
    except InvalidUrl:
        return ""


@dataclass(slots=True, frozen=True)
class Found:
    """The addresses of some URLs' hosts; an empty list is a host that was not found."""

    addresses: Mapping[str, Sequence[str]]

    @property
    def missing(self) -> list[str]:
        return [host for host, found in self.addresses.items() if not found]

    @property
    def private(self) -> list[str]:
        """Hosts with an address that is not public."""
        return [
            host
            for host, found in self.addresses.items()
            if any(not ip_address(address).is_global for address in found)
        ]

    def problem(self, *, are_private_allowed: bool) -> str | None:
        """Why none of them could be fetched."""
        hosts = list(self.addresses)
        if hosts and self.missing == hosts:
            return f"host not found: {', '.join(hosts)}"
        if not are_private_allowed and hosts and self.private == hosts:
            return (
                f"{', '.join(hosts)}: an address of a private network, where nothing is fetched "
                "unless ALLOW_NETS names it, such as ALLOW_NETS=127.0.0.0/8"
            )
        return None


async def look_up(urls: Iterable[Url]) -> Found:
    """By the system's own resolver."""
    hosts = list(dict.fromkeys(url.host for url in urls))[:MOST_LOOKED_UP]
    found = await asyncio.gather(*(_addresses(host) for host in hosts))
    return Found(dict(zip(hosts, found, strict=True)))


async def _addresses(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        told = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return [str(address[0]).partition("%")[0] for *_, address in told]
