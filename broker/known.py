"""The jids of recent pushes, so that a push that is sent twice is stored once. Pure."""

from collections.abc import Iterable
from hashlib import blake2b

GENERATION = 250_000
# Of a longer one, only a digest is kept.
SHORT_JID = 64


class KnownJids:
    """Two generations: when the younger one is full, the older one is forgotten. So between
    250,000 and 500,000 pushes are remembered, in some 60 MB at most."""

    def __init__(self) -> None:
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, jid: str) -> bool:
        if len(jid) > SHORT_JID:
            jid = _digest(jid)
        return jid in self._young or jid in self._old

    def add(self, jid: str) -> None:
        if len(self._young) >= GENERATION:
            self._old, self._young = self._young, set()
        self._young.add(jid if len(jid) <= SHORT_JID else _digest(jid))

    def discard(self, jid: str) -> None:
        self.discard_all([jid])

    def discard_all(self, jids: Iterable[str]) -> None:
        kept = [jid if len(jid) <= SHORT_JID else _digest(jid) for jid in jids]
        self._young.difference_update(kept)
        self._old.difference_update(kept)

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()


def _digest(jid: str) -> str:
    return blake2b(jid.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
