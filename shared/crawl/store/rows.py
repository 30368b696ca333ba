"""What a kind of store must know how to ask and write of one shard, so that `shard.Shard` can do
the work of its owner: statements, and no decisions. Rows come and go as tuples, many at a time.

What returns nothing may be put off by the store until something is asked, or the transaction ends.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import (
    ClaimedUrl,
    FirstJob,
    LastOwner,
    NewUrl,
    Outgoing,
    StoredDomain,
    StoredRobots,
)
from manyhands.shared.crawl.store.protocol import ShardReader

# Id, origin and text of a URL.
WaitingRow = tuple[int, int, str]
# Id, origin, state and key of a fetch job.
EndedJobRow = tuple[int, int, int, bytes]
# Id, state, HTTP status, reason, attempts (the row keeps the larger), not_before.
SettledRow = tuple[int, UrlState, int, str, int, float]


class TallyRows(Protocol):
    """What is added up in a transaction, and written once."""

    def add_to_counters(self, rows: Sequence[tuple[int, str, int]]) -> None:
        """Crawl, name, by how much."""

    def add_to_queued(self, rows: Sequence[tuple[int, int]]) -> None:
        """Origin, by how many; its domain has them, too."""

    def add_to_hosts(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Crawl, origin, by how many."""

    def reasons(self, crawl: int) -> list[str]:
        """Those that errors are grouped by so far."""

    def add_to_errors(self, rows: Sequence[tuple[int, str, int, str, float, float]]) -> None:
        """Crawl, reason, count, sample, first and last time."""

    def keep_domains(self, rows: Sequence[tuple[int, float, float, bool]]) -> None:
        """Id, next_at, delay_s, whether it stays taken."""

    def keep_origins(self, rows: Sequence[tuple[int, float, bytes]]) -> None:
        """Id, ready_at, notes."""


class AdmissionRows(TallyRows, Protocol):
    """URLs that come."""

    def known(self, crawl: int, keys: Sequence[bytes]) -> list[int]:
        """The places of those that the crawl has seen."""

    def seed_names_among(self, crawl: int, names: Sequence[str]) -> list[str]: ...

    def add_seed_names(self, crawl: int, names: Sequence[tuple[str, str]]) -> None:
        """Name and domain; those that are there stay."""

    def admitted_of_hosts(self, crawl: int, origins: Sequence[str]) -> list[int]:
        """In the order of the origins, also of those that are not known."""

    def origin_ids(self, origins: Sequence[tuple[str, str]]) -> list[int]:
        """Of these, with their domains, in their order; made where they are new."""

    def next_url_id(self) -> int: ...

    def add_urls(
        self, first: int, crawl: int, now: float, urls: Sequence[NewUrl], origins: Sequence[int]
    ) -> None:
        """To `urls`, with ids from `first` on in the order of arrival, and to `seen`."""


class ShardRows(AdmissionRows, ShardReader, Protocol):
    """All of a shard, as its owner needs it."""

    def transaction(self, epoch: int) -> AbstractContextManager[None]:
        """All or nothing. Raises LeaseLost at its start when the shard has another epoch;
        Undone when the store lost it and knows that nothing of it has happened."""

    def takeover(self, epoch: int, longest_fetch_s: float) -> AbstractContextManager[LastOwner]:
        """A transaction that makes the shard this epoch's own, after all of earlier owners have
        ended, and keeps how long a request of the new owner may last. Raises LeaseLost when a later
        one was here."""

    # Domains and origins

    def due_domains(self, due_by: float, limit: int) -> list[StoredDomain]:
        """With URLs waiting, and taken by nobody."""

    def domains_named(self, names: Collection[str]) -> list[StoredDomain]:
        """With URLs waiting."""

    def taken(self) -> list[StoredDomain]:
        """With URLs waiting."""

    def take(self, domains: Sequence[int], epoch: int) -> None: ...

    def give_all_up(self, now: float) -> None:
        """No domain is taken, and those that were wait for their delay from now on."""

    def hold_back(self, origins: Sequence[int], until: float) -> None:
        """The domains of these origins wait for their delay from then on."""

    # URLs

    def next_urls(
        self, wanted: Mapping[int, int], crawls: Sequence[int]
    ) -> list[tuple[int, float, ClaimedUrl]]:
        """Up to so many of each of these origins and each of these crawls, the earliest first, due
        or not: origin, not_before, what is claimed then."""

    def mark_claimed(self, ids: Sequence[int], epoch: int, now: float) -> None: ...

    def owed(self, ids: Sequence[int], epoch: int) -> list[tuple[int, int, int, int, str]]:
        """Of these, those that this epoch has claimed: id, crawl, origin, state, URL."""

    def write_settled(self, rows: Sequence[SettledRow], now: float) -> None: ...

    def of_keys(
        self, crawl: int, keys: Sequence[bytes]
    ) -> list[tuple[int, int, int, int, int, str]]:
        """Place among the keys, id, state, origin, epoch, reason."""

    def mark_done(self, ids: Sequence[int], now: float) -> None: ...

    def parsing_since(
        self, crawl: int, before: float, limit: int
    ) -> list[tuple[int, int, int, str]]:
        """Id, origin, attempts, URL."""

    def queued_of_crawl(self, crawl: int, limit: int) -> list[WaitingRow]: ...

    def queued_of_origin(self, crawl: int, origin: int, limit: int) -> list[WaitingRow]: ...

    def queued_of_domain(self, crawl: int, domain: str, limit: int) -> list[WaitingRow]: ...

    def end(self, ids: Sequence[int], state: UrlState, reason: str, now: float) -> None: ...

    def crawls_with(self, counter: str) -> list[int]:
        """Those whose counter is above zero."""

    def queue_claimed(self, crawl: int) -> list[tuple[int, int]]:
        """All that is claimed is queued; how many of which origin."""

    # Fetch jobs

    def untold(self, limit: int) -> list[tuple[int, int, str, str]]:
        """Those that ended without a page: id, state, reason, job."""

    def told(self, ids: Sequence[int]) -> None: ...

    def ended_jobs(self, before: float, limit: int) -> list[EndedJobRow]:
        """That ended before then, the oldest first."""

    def forget_jobs(self, rows: Sequence[EndedJobRow]) -> None: ...

    def first_jobs(self, url_keys: Sequence[str]) -> list[FirstJob]:
        """Those of these URLs that are kept."""

    def keep_first_jobs(self, firsts: Sequence[FirstJob]) -> None:
        """In place of what is kept of their URLs."""

    def forget_first_job(self, url_key: str) -> None: ...

    def forget_first_jobs(self, now: float, limit: int) -> int:
        """Whose time is over; how many there were."""

    # Robots and links: see protocol.ShardStore

    def robots(self, origins: Collection[str]) -> dict[str, StoredRobots]: ...

    def keep_robots(self, origin: str, robots: StoredRobots) -> None: ...

    def forget_robots(self, expired_before: float, most_bytes: int) -> None: ...

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None: ...

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]: ...

    def forget_outgoing(self, up_to: Mapping[int, int]) -> dict[int, int]:
        """How many batches of which crawls."""

    def receive(self, batches: Sequence[tuple[int, int]]) -> list[int]: ...
