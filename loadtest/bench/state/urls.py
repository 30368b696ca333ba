"""Made-up URLs for the benchmark of the state store: hosts, pages, and links that are known."""

import random
from collections.abc import Iterator
from hashlib import blake2b

from manyhands.shared.crawl.store.model import NewUrl

# As measured on real crawls: of the links of a page, so many are known already.
KNOWN_SHARE = 0.45
HOST_KEY_BYTES = 6
PAGE_KEY_BYTES = 10
# Most links of a page stay on its site.
SAME_HOST_SHARE = 0.7


def host_key(host: int) -> bytes:
    return blake2b(host.to_bytes(8, "big"), digest_size=HOST_KEY_BYTES).digest()


class Links:
    """Links as the pages of one shard have them. State: what was made so far, and the dice."""

    def __init__(self, shard: int, hosts: int, seed: int, known: list[bytes] | None = None) -> None:
        """`known` are keys that the store has already; without them, links of its own are."""
        self._dice = random.Random(seed)
        self._hosts = range(shard * hosts, (shard + 1) * hosts)
        self._made: list[NewUrl] = [self._with_key(key) for key in known or ()]

    def batches(self, number: int, size: int) -> Iterator[list[NewUrl]]:
        for _ in range(number):
            page = self._dice.choice(self._hosts)
            yield [self._link(page) for _ in range(size)]

    def _link(self, page: int) -> NewUrl:
        if self._made and self._dice.random() < KNOWN_SHARE:
            return self._dice.choice(self._made)
        host = page if self._dice.random() < SAME_HOST_SHARE else self._dice.choice(self._hosts)
        link = _url(host, host_key(host) + self._dice.randbytes(PAGE_KEY_BYTES))
        self._made.append(link)
        return link

    def _with_key(self, key: bytes) -> NewUrl:
        return _url(self._hosts[0], key)


def _url(host: int, key: bytes) -> NewUrl:
    domain = f"site{host}.example"
    origin = f"https://www.{domain}"
    return NewUrl(key, f"{origin}/articles/2026/{key.hex()}.html", origin, domain, 3)
