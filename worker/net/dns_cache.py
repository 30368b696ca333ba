"""Answers of DNS, and when they expire. Pure: `now` is monotonic seconds."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST_S = 30.0
LONGEST_S = 3600.0
# A missing name may exist a minute later; a failed server may be back sooner.
MISSING_S = 60.0
FAILURE_S = 10.0
MAX_ENTRIES = 50_000


@dataclass(slots=True, frozen=True)
class DnsEntry:
    """Addresses, or the reason why there are none."""

    addresses: tuple[str, ...]
    failure: str
    expires_at: float


class DnsCache:
    """State: the entries, the least recently used ones dropped."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, DnsEntry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, host: str, now: float) -> DnsEntry | None:
        entry = self._entries.get(host)
        if entry is None or entry.expires_at <= now:
            return None
        self._entries.move_to_end(host)
        return entry

    def found(self, host: str, addresses: Sequence[str], ttl_s: float, now: float) -> DnsEntry:
        """`ttl_s` is what the answer says, within reason."""
        kept_s = min(max(ttl_s, SHORTEST_S), LONGEST_S)
        return self._put(host, DnsEntry(tuple(addresses), "", now + kept_s))

    def missing(self, host: str, failure: str, now: float) -> DnsEntry:
        """DNS knows that there is no such name, or that it has no address."""
        return self._put(host, DnsEntry((), failure, now + MISSING_S))

    def failed(self, host: str, failure: str, now: float) -> DnsEntry:
        """No server could answer."""
        return self._put(host, DnsEntry((), failure, now + FAILURE_S))

    def _put(self, host: str, entry: DnsEntry) -> DnsEntry:
        self._entries[host] = entry
        self._entries.move_to_end(host)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
        return entry
