"""The jids of recent pushes, so that a push that is sent twice is stored once. Pure."""

GENERATION = 250_000


class KnownJids:
    """Two generations: when the younger one is full, the older one is forgotten. So between
    250,000 and 500,000 pushes are remembered, in some 60 MB at most."""

    def __init__(self) -> None:
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, jid: str) -> bool:
        return jid in self._young or jid in self._old

    def add(self, jid: str) -> None:
        if len(self._young) >= GENERATION:
            self._old, self._young = self._young, set()
        self._young.add(jid)

    def discard(self, jid: str) -> None:
        self._young.discard(jid)
        self._old.discard(jid)

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
