"""DNS without a network: what a test says that names mean."""

from collections.abc import Mapping, Sequence

from manyhands.worker.net.fetcher import TemporaryFetchError

Addresses = Sequence[str]


class StubResolver:
    """Each name gives its lists of addresses one after the other, then the last one for ever; `*`
    is for all other names. State: the names that were asked for."""

    def __init__(self, names: Mapping[str, Sequence[Addresses]]) -> None:
        self._names = {name: list(lists) for name, lists in names.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        lists = self._names.get(host, self._names.get("*"))
        if lists is None:
            raise TemporaryFetchError(f"DNS of {host}: no such host", reason="dns: no such host")
        return lists.pop(0) if len(lists) > 1 else lists[0]

    async def close(self) -> None:
        """Nothing is open."""
