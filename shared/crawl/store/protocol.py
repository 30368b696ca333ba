"""What a state store must do. `opening` knows which kinds there are.

Everything is synchronous: an owner calls it from a separate thread, many changes at a time.
"""

import contextlib
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, Self, TypeVar

from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.crawl_files import CrawlFiles
from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import (
    NO_FETCHES,
    Admitted,
    ClaimedUrl,
    Claims,
    Crawl,
    DomainRule,
    Due,
    EndedJob,
    ErrorGroup,
    Fetches,
    JobRow,
    Layout,
    Lease,
    Member,
    NewCrawl,
    NewJob,
    NewUrl,
    Outgoing,
    Purge,
    SeedBatch,
    Settled,
    StoredDomain,
    StoredOrigin,
    StoredRobots,
    Unparsed,
    UrlRow,
)

Result = TypeVar("Result")
# URLs that were copied to new shards, and how many there are.
Progress = Callable[[int, int], None]


class ShardReader(Protocol):
    """For anybody, at any time, beside the owner."""

    def counters(self, crawl: int) -> dict[str, int]:
        """All of `model.COUNTERS`."""

    def urls(self, crawl: int, state: UrlState, after_id: int, limit: int) -> list[UrlRow]: ...

    def errors(self, crawl: int) -> list[ErrorGroup]:
        """Those with most URLs first."""

    def seed_names(self, crawl: int, limit: int) -> list[str]:
        """Hosts and domains of this shard that are in scope because a seed is."""

    def received_from(self, source: int) -> int:
        """All batches of links from that shard up to this number have arrived."""

    def waiting_domains(self, limit: int) -> list[StoredDomain]:
        """Those with most URLs waiting first."""

    def put_off(self, after: float, limit: int) -> list[StoredOrigin]:
        """Origins with URLs waiting that are left alone until later than that, the earliest first:
        `ready_at` of the last is where to go on."""

    def waiting_in(self, crawl: int, domains: Sequence[str]) -> dict[str, int]:
        """Of these, the domains where URLs of the crawl wait, and how many of all crawls do."""

    def put_off_of(self, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        """Those of them with URLs of one crawl."""

    def jobs(self, keys: Sequence[bytes]) -> list[JobRow]:
        """The fetch jobs of these keys that are here."""

    def due(self, crawls: Sequence[int], now: float, *, is_owned: bool) -> list[Due]:
        """Of these crawls. What an owner has in memory counts only where there is no owner. Not
        more than `schema_words.MOST_DUE` domains are looked at, those that have waited longest,
        and not more than `MOST_DUE_ORIGINS` hosts of each: it is asked all the time."""

    def close(self) -> None: ...


class ShardStore(ShardReader, Protocol):
    """For the one owner of a shard. Opened with the lease's epoch, which fences it: opening makes
    every older owner's transactions raise LeaseLost. Opening also queues again what the last owner
    had claimed, and puts the next time of every domain that it held in memory to takeover + the
    domain's delay. Where URLs were claimed, a request may still be open, which an owner that was
    stopped cannot end: there its longest fetch comes on top.

    All methods that change something are called inside `transaction()`."""

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing; raises LeaseLost at its start when the epoch is no longer ours."""

    def run(self, work: Callable[[], Result]) -> Result:
        """Do it in a transaction. `work` is called again when the store lost sight of the first
        attempt and found that nothing of it has happened: it must change nothing but this shard."""

    # Frontier

    def admit(
        self,
        crawl: int,
        urls: Sequence[NewUrl],
        now: float,
        *,
        host_limit: int | None = None,
        are_seeds: bool = False,
    ) -> Admitted:
        """Queue those that the crawl has not seen. Seeds also make their host and domain names in
        scope. A key may be twice in `urls`."""

    def take_domains(self, due_by: float, limit: int) -> list[StoredDomain]:
        """Domains with URLs waiting whose time comes until then, the earliest first; each once,
        until it is given up by `put_domain`. Origins: only those with URLs waiting, at most 100
        of a domain, the earliest first."""

    def take_named(self, names: Collection[str]) -> list[StoredDomain]:
        """These domains, whether they were taken before or not: after new URLs were admitted to
        them. Without those that have no URLs waiting."""

    def taken_domains(self) -> list[StoredDomain]:
        """Those that were not given up, as far as they have URLs waiting."""

    def keep_domain(self, domain_id: int, next_at: float, delay_s: float) -> None:
        """Remember its time and its delay; it stays taken."""

    def put_domain(self, domain_id: int, next_at: float, delay_s: float) -> None:
        """Remember them, and give it up: `take_domains` may give it again."""

    def keep_origin(self, origin_id: int, ready_at: float, notes: bytes) -> None: ...

    def claim(self, origin_id: int, crawl: int, now: float, limit: int) -> list[ClaimedUrl]:
        """Take URLs that may be fetched now: those that never were first, in order of arrival."""

    def claim_each(
        self, wanted: Mapping[int, int], crawls: Sequence[int], now: float
    ) -> dict[int, Claims]:
        """The same for many origins, with how many are wanted of each: a share for each of the
        crawls; what one leaves goes to the next."""

    def settle(self, settled: Sequence[Settled], now: float) -> None:
        """Of rows that are CLAIMED by this epoch; others are left as they are. Final states add
        to `pages` and `bytes` if they have a status that is no redirect, and PARSING does."""

    def parsed(self, crawl: int, keys: Sequence[bytes], now: float) -> list[int]:
        """PARSING, CLAIMED or QUEUED becomes DONE; the places of those that were in one of these.
        A page that was fetched for an owner that died is queued again until its parse answers."""

    def unparsed(self, crawl: int, pages: Sequence[Unparsed], now: float) -> list[int]:
        """The same for pages that came to nothing: to FAILED, or QUEUED again."""

    def readmit(self, parsing_since: float, now: float, most_attempts: int, limit: int) -> int:
        """Queue again what has been PARSING since before then, with one more attempt; fail it
        (reason 'lost in parsing') after `most_attempts`. How many rows were changed. Fetch jobs
        become DONE instead: their pages are in the broker, whoever parses them."""

    def waiting_crawls(self) -> list[int]:
        """Those with QUEUED URLs, also if they have ended."""

    def cancel(self, crawl: int, limit: int) -> int:
        """QUEUED becomes CANCELLED, at most `limit` at a time; returns how many."""

    def purge(self, crawl: int, domain: str, limit: int) -> int:
        """Like `cancel`, for one domain: to SKIPPED with the reason 'purged'."""

    def give_up(self, crawl: int, origin_id: int, reason: str, limit: int) -> int:
        """The same for one origin, to FAILED with that reason."""

    def count_error(self, crawl: int, reason: str, url: str, now: float) -> None:
        """Add to the errors what changes no URL, such as `url`, which has to wait for it."""

    def count(self, crawl: int, deltas: Mapping[str, int]) -> None:
        """Add to counters other than those of the URL states."""

    # Fetch jobs: URLs of no crawl

    def admit_jobs(self, jobs: Sequence[NewJob], now: float) -> set[int]:
        """Queue those that were not here before. A unique one is not queued but SAME when another
        unique one of its URL was admitted less than the shorter time of both ago, and has not come
        to nothing as far as this shard knows. The places of those that are."""

    def untold_jobs(self, limit: int) -> list[EndedJob]:
        """Those that ended without a page, and were not told."""

    def jobs_told(self, ids: Sequence[int]) -> None: ...

    def forget_jobs(self, before: float, limit: int) -> int:
        """Forget those that ended before then, at most `limit` of them; returns how many. One that
        was not told stays."""

    def came_to_nothing(self, url_key: str, job: str, turn: int) -> None:
        """A unique job: no other can be the same as it, also when it is forgotten."""

    def forget_first_jobs(self, now: float, limit: int) -> int:
        """Forget of unique ones what no other can be the same as any more; returns how many."""

    # Robots

    def robots(self, origins: Collection[str]) -> dict[str, StoredRobots]:
        """Those that are kept, by origin."""

    def keep_robots(self, origin: str, robots: StoredRobots) -> None: ...

    def forget_robots(self, expired_before: float, most_bytes: int) -> None:
        """Delete those that expired before then, and the oldest beyond `most_bytes`."""

    # Links for other shards

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
        """Keep batches of links, each with its target, until their shards have them."""

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]:
        """Those with a number beyond what `after` says of their target (0: all)."""

    def delivered(self, up_to: Mapping[int, int]) -> None:
        """These shards have everything up to these numbers: forget it."""

    def receive(self, batches: Sequence[tuple[int, int]]) -> list[int]:
        """Note batches from other shards, by source and number; the places of those that were not
        here before. Called in the transaction that admits their links."""


class ControlStore(Protocol):
    """What all processes share: small, and changed rarely. Every method is one transaction.

    Leases, members and the leader live on the store's own clock: `ttl_s` from the call on."""

    @property
    def files(self) -> CrawlFiles: ...

    def tag(self) -> str:
        """Of this store and no other."""

    # Layout

    def layout(self, wanted: int, *, may_change: bool = True) -> Layout:
        """Created with this many shards if there is none yet; otherwise only `wanted` changes, if
        it may."""

    def finish_reshard(
        self, generation: int, shards: int, held: Mapping[int, int] | None = None
    ) -> None:
        """From now on the shards of this generation count. `held` are leases (shard to epoch) that
        nobody must have claimed since; raises LeaseLost otherwise. They end with it."""

    # Members, leases, leader

    def join(self, member: Member, ttl_s: float) -> None:
        """Also how a member stays one."""

    def leave(self, name: str) -> None:
        """Gives up its leases, too."""

    def members(self) -> list[Member]: ...

    def leases(self) -> list[Lease]:
        """Of all shards of the layout that were ever owned."""

    def claim_lease(self, shard: int, owner: str, ttl_s: float) -> int | None:
        """The new epoch; None when another member has it."""

    def renew_leases(self, owner: str, epochs: Mapping[int, int], ttl_s: float) -> set[int]:
        """The shards that are still its own, renewed for `ttl_s`. A lease that ran out is its own
        as long as nobody else has taken it and it was not given back."""

    def release_lease(self, shard: int, epoch: int) -> None: ...

    def lead(self, name: str, ttl_s: float) -> bool:
        """Become or stay the leader; False when another one is."""

    # Crawls

    def version(self) -> int:
        """Grows with every change of crawls, rules, seeds and purges: what to look at often."""

    def create_crawl(self, new: NewCrawl, now: float) -> tuple[Crawl, bool]:
        """The crawl with its first seeds, and whether it is new: one, also if the store was lost
        before it answered. A key that was used with the same fingerprint gives that crawl, as it
        is; with another one KeyConflict."""

    def crawl(self, crawl: int) -> Crawl:
        """Raises NoSuchCrawl."""

    def crawls(
        self, after_id: int, limit: int, state: CrawlState | None = None, *, max_bytes: int
    ) -> list[Crawl]:
        """Newest first, ids below `after_id` (0: from the newest). What was asked of them has
        `max_bytes` together at most, or there is only one."""

    def crawl_states(self, above_id: int) -> list[tuple[int, CrawlState]]:
        """Of all crawls with higher ids, in the order of these."""

    def live_crawls(self) -> list[Crawl]:
        """Those that have not ended."""

    def change_state(
        self,
        crawl: int,
        expected: Collection[CrawlState],
        state: CrawlState,
        now: float,
        *,
        reason: str = "",
        ends_as: CrawlState | None = None,
    ) -> bool:
        """False when it is in none of the expected states, or to be completed while seeds wait.
        Sets started_at with the first RUNNING and ended_at with a final state."""

    def add_seeds(self, crawl: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        """Raises CrawlEnds. A crawl that has seeds does not complete before they are taken."""

    def all_seeds_added(self, crawl: int, seed_file_lines: int | None = None) -> None: ...

    def seed_file_read(self, crawl: int, lines: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        """Add seeds, and remember how far a worker has read the file (see `CrawlFiles.seed_file`):
        one transaction."""

    def seeds(self, shard: int, limit: int) -> list[SeedBatch]: ...

    def seeds_taken(self, ids: Sequence[int]) -> None: ...

    def seeds_waiting(self, crawl: int) -> int:
        """Batches that no owner has taken yet."""

    # Orders of operators

    def set_rule(self, rule: DomainRule) -> None:
        """In place of an earlier one; an empty rule is none."""

    def change_rule(
        self, crawl: int | None, domain: str, change: Callable[[DomainRule], DomainRule]
    ) -> DomainRule:
        """What becomes of the rule as it is, or of an empty one. `change` may be called twice."""

    def rules(self) -> list[DomainRule]: ...

    def order_purge(self, shard: int, crawl: int, domain: str) -> None: ...

    def purges(self, shard: int) -> list[Purge]: ...

    def purge_done(self, purge: int) -> None: ...

    def shards_with_orders(self) -> set[int]:
        """Those with seeds or purges that no owner has taken yet."""

    def grant_pages(self, crawl: int, member: str, wanted: int, most: int) -> int:
        """Of the `most` pages that a crawl may fetch in all, grant a member up to `wanted`, which
        it may fetch without asking again."""

    def return_pages(self, crawl: int, member: str, unused: int) -> None: ...

    def granted_pages(self, crawl: int) -> int:
        """Pages granted and not returned."""

    def reset_pages(self, crawl: int, used: int, granted: int) -> bool:
        """`used` pages were fetched, and no member has any left of its grants: what dead members
        had left can be granted again. False, and nothing changes, unless exactly `granted` are
        granted now."""

    def note(self, crawl: int, text: str, now: float) -> None:
        """Something that people should see of a crawl: a re-admission, a change of shards."""

    def notes(self, crawl: int, limit: int) -> list[tuple[float, str]]:
        """The newest first."""

    def close(self) -> None: ...


class ShardReaders(Protocol):
    """Readers of any shards, kept open. Used in one thread."""

    def get(self, generation: int, shard: int) -> ShardReader | None:
        """None as long as the shard has had no owner. Raises StateError."""

    def close(self) -> None:
        """All of them; they are opened again when they are asked for."""

    def each(self, layout: Layout, first: int = 0) -> Iterator[tuple[int, ShardReader]]:
        """The shards from `first` on that have had an owner, with their numbers. Raises
        StateError."""
        for shard in range(first, layout.shards):
            reader = self.get(layout.generation, shard)
            if reader is not None:
                yield shard, reader

    # What is asked of all of them, see `ShardReader`; a store may know a shorter way.

    def counters(self, layout: Layout, crawl: int) -> list[dict[str, int]]:
        """Of each shard that has had an owner."""
        return [reader.counters(crawl) for _, reader in self.each(layout)]

    def errors(self, layout: Layout, crawl: int) -> list[ErrorGroup]:
        """A reason comes as often as shards have it."""
        return [group for _, reader in self.each(layout) for group in reader.errors(crawl)]

    def seed_names(self, layout: Layout, crawl: int, limit: int) -> list[str]:
        """Up to `limit` of all shards together."""
        names: list[str] = []
        for _, reader in self.each(layout):
            names += reader.seed_names(crawl, limit - len(names))
            if len(names) == limit:
                break
        return names

    def put_off_of(self, layout: Layout, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        """Up to `limit` of each shard."""
        return [
            origin
            for _, reader in self.each(layout)
            for origin in reader.put_off_of(crawl, now, limit)
        ]

    def jobs(self, layout: Layout, keys: Sequence[bytes]) -> list[JobRow]:
        return [job for _, reader in self.each(layout) for job in reader.jobs(keys)]

    def due(
        self, layout: Layout, crawls: Sequence[int], now: float, owned: Container[int]
    ) -> list[Due]:
        """A crawl comes as often as shards have something of it. `owned` are the shards that have
        an owner."""
        return [
            due
            for shard, reader in self.each(layout)
            for due in reader.due(crawls, now, is_owned=shard in owned)
        ]

    def received(
        self, layout: Layout, wanted: Mapping[int, Collection[int]]
    ) -> dict[int, dict[int, int]]:
        """By target and source: up to which number the batches of some sources have arrived in
        each target. Targets that cannot be read are left out."""
        found = {}
        for target, sources in wanted.items():
            with contextlib.suppress(StateError), self.reopened_after_errors():
                reader = self.get(layout.generation, target)
                found[target] = {
                    source: reader.received_from(source) if reader is not None else 0
                    for source in sources
                }
        return found

    @contextlib.contextmanager
    def reopened_after_errors(self) -> Iterator[Self]:
        """After a StateError all are closed: next time another may be in the place of one."""
        try:
            yield self
        except StateError:
            self.close()
            raise


class Store(Protocol):
    """A whole state: the ways into it. Whoever opens something closes it; all threads may ask."""

    @property
    def writers(self) -> int:
        """How many shards of a process are worth being written side by side, in each place; known
        from `open_control` on."""

    @property
    def gather_s(self) -> float:
        """How long changes of a process are worth being gathered for one transaction per shard."""

    @property
    def absences(self) -> Sequence[Absence]:
        """Of each place that keeps shards, whether it is away: number N of so many has the shards
        whose number leaves N when it is divided by that. The first has the control store."""

    @property
    def directory(self) -> Path | None:
        """Of files that one machine alone may use; None: any number of machines may."""

    @property
    def can_reshard(self) -> bool:
        """Whether services may change the number of shards, by `reshard`."""

    @property
    def what_to_do(self) -> str:
        """About a shard that is damaged."""

    def open_control(self) -> ControlStore:
        """Made if there is none. From now on `clock.now` is this store's. Raises StateError."""

    def open_shard(
        self, generation: int, shard: int, epoch: int, now: float, fetches: Fetches = NO_FETCHES
    ) -> ShardStore:
        """Take a shard over with the epoch of its lease. Raises LeaseLost when a later owner has it
        already or its generation is gone, StateBusy when an earlier one hangs in the middle of a
        transaction, StateDamaged when it is, which others are told of."""

    def open_reader(self, generation: int, shard: int) -> ShardReader | None:
        """None as long as the shard has had no owner."""

    def readers(self) -> ShardReaders: ...

    def reshard(self, control: ControlStore, shards: int, on_progress: Progress) -> None:
        """Bring the state to so many shards; to be called by every new leader, since it also clears
        away what an attempt that was killed has left. Raises StateBusy while a shard has an
        owner."""

    def name_of(self, generation: int, shard: int) -> str:
        """Where a shard is, for people."""

    def damaged(self, generation: int, shards: int) -> set[int]:
        """Those that were found damaged by anybody, and have not changed since."""

    def note_damage(self, generation: int, shard: int, reason: str) -> None: ...

    def damaged_shards(self) -> list[str]:
        """Sentences about all that are."""

    def close(self) -> None: ...
