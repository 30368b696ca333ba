"""What an owner does with a shard, whatever keeps its rows."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import ceil, inf
from typing import TypeVar

from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.admission import Admission, Places
from manyhands.shared.crawl.store.errors import Undone
from manyhands.shared.crawl.store.model import (
    KEY_BYTES,
    STATE_COUNTERS,
    Admitted,
    ClaimedUrl,
    Claims,
    Due,
    EndedJob,
    ErrorGroup,
    Fetches,
    JobRow,
    NewJob,
    NewUrl,
    Outgoing,
    Settled,
    StoredDomain,
    StoredOrigin,
    StoredRobots,
    Unparsed,
    UrlRow,
)
from manyhands.shared.crawl.store.rows import SettledRow, ShardRows, WaitingRow
from manyhands.shared.crawl.store.tally import Errors, Tally
from manyhands.shared.crawl.store.unique_jobs import decide

LOST = "lost in parsing"
PURGED = "purged"
# How often a transaction is repeated that the store has lost: each time it waited for the way back.
MOST_REPEATS = 5

Result = TypeVar("Result")
# What is known at the beginning of a transaction.
Opened = TypeVar("Opened")


class Shard:
    """A `protocol.ShardStore`. State: the epoch, what the open transaction has added up and put off
    so far, and what need not be asked again."""

    def __init__(self, rows: ShardRows, epoch: int) -> None:
        self._rows = rows
        self._epoch = epoch
        self._tally = Tally()
        self._places = Places()
        self._parsing: dict[int, Settled] = {}
        self._parsing_since = 0.0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._adding_up(self._rows.transaction(self._epoch)):
            yield

    def run(self, work: Callable[[], Result]) -> Result:
        for _ in range(MOST_REPEATS):
            with contextlib.suppress(Undone):
                return self._run_once(work)
        return self._run_once(work)

    def take_over(self, now: float, fetches: Fetches) -> None:
        """Make the shard this epoch's own; raises LeaseLost when a later one was here. Nobody
        knows any more what the last owner had in hand, so it is queued again."""
        origins = []
        with self._adding_up(self._rows.takeover(self._epoch, fetches.longest_s)) as last:
            for crawl in self._crawls_with(UrlState.CLAIMED):
                for origin, number in self._rows.queue_claimed(crawl):
                    self._tally.move(crawl, origin, UrlState.CLAIMED, UrlState.QUEUED, number)
                    origins.append(origin)
            self._rows.give_all_up(now)
            if origins and last.epoch != fetches.ended_epoch:
                longest_s = last.longest_fetch_s
                self._rows.hold_back(
                    origins, now + (fetches.longest_s if longest_s is None else longest_s)
                )

    def close(self) -> None:
        self._rows.close()

    # Reading: as `protocol.ShardReader`, with what the open transaction has done so far

    def counters(self, crawl: int) -> dict[str, int]:
        self._write_tally()
        return self._rows.counters(crawl)

    def urls(self, crawl: int, state: UrlState, after_id: int, limit: int) -> list[UrlRow]:
        return self._rows.urls(crawl, state, after_id, limit)

    def errors(self, crawl: int) -> list[ErrorGroup]:
        return self._rows.errors(crawl)

    def seed_names(self, crawl: int, limit: int) -> list[str]:
        return self._rows.seed_names(crawl, limit)

    def received_from(self, source: int) -> int:
        return self._rows.received_from(source)

    def waiting_domains(self, limit: int) -> list[StoredDomain]:
        self._write_tally()
        return self._rows.waiting_domains(limit)

    def waiting_in(self, crawl: int, domains: Sequence[str]) -> dict[str, int]:
        self._write_tally()
        return self._rows.waiting_in(crawl, domains)

    def put_off(self, after: float, limit: int) -> list[StoredOrigin]:
        self._write_tally()
        return self._rows.put_off(after, limit)

    def put_off_of(self, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        self._write_tally()
        return self._rows.put_off_of(crawl, now, limit)

    def due(self, crawls: Sequence[int], now: float, *, is_owned: bool) -> list[Due]:
        self._write_tally()
        return self._rows.due(crawls, now, is_owned=is_owned)

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
        admission = Admission(self._rows, self._tally, self._places, crawl, now, host_limit)
        return admission.admit(urls, are_seeds=are_seeds)

    def take_domains(self, due_by: float, limit: int) -> list[StoredDomain]:
        self._write_tally()
        return self._take(self._rows.due_domains(due_by, limit))

    def take_named(self, names: Collection[str]) -> list[StoredDomain]:
        self._write_tally()
        return self._take(self._rows.domains_named(names))

    def taken_domains(self) -> list[StoredDomain]:
        self._write_tally()
        return self._rows.taken()

    def keep_domain(self, domain_id: int, next_at: float, delay_s: float) -> None:
        self._tally.domains[domain_id] = (next_at, delay_s, True)

    def put_domain(self, domain_id: int, next_at: float, delay_s: float) -> None:
        self._tally.domains[domain_id] = (next_at, delay_s, False)

    def keep_origin(self, origin_id: int, ready_at: float, notes: bytes) -> None:
        self._tally.origins[origin_id] = (ready_at, notes)

    def claim(self, origin_id: int, crawl: int, now: float, limit: int) -> list[ClaimedUrl]:
        return self.claim_each({origin_id: limit}, [crawl], now)[origin_id].urls

    def claim_each(
        self, wanted: Mapping[int, int], crawls: Sequence[int], now: float
    ) -> dict[int, Claims]:
        ready: defaultdict[tuple[int, int], list[ClaimedUrl]] = defaultdict(list)
        due_at: dict[int, float] = {}
        rows = self._rows.next_urls(wanted, crawls) if wanted and crawls else []
        for origin, not_before, url in rows:
            if not_before <= now:
                ready[origin, url.crawl].append(url)
            else:
                due_at[origin] = min(not_before, due_at.get(origin, inf))
        claims = {}
        for origin, most in wanted.items():
            urls: list[ClaimedUrl] = []
            for place, crawl in enumerate(crawls):
                share = ceil((most - len(urls)) / (len(crawls) - place))
                urls += ready[origin, crawl][:share]
            is_all = len(urls) < most and origin not in due_at
            is_all = is_all and len(urls) == sum(len(ready[origin, crawl]) for crawl in crawls)
            claims[origin] = Claims(urls, None if urls else due_at.get(origin), is_all)
        self._mark_claimed(claims, now)
        return claims

    def _mark_claimed(self, claims: Mapping[int, Claims], now: float) -> None:
        claimed = [(origin, url) for origin, one in claims.items() for url in one.urls]
        if claimed:
            self._rows.mark_claimed([url.id for _, url in claimed], self._epoch, now)
        for origin, url in claimed:
            self._tally.move(url.crawl, origin, UrlState.QUEUED, UrlState.CLAIMED)

    def settle(self, settled: Sequence[Settled], now: float) -> None:
        for one in settled:
            if one.state is UrlState.PARSING:
                # Kept until the end of the transaction: mostly its parse has answered by then.
                self._parsing.setdefault(one.id, one)
                self._parsing_since = now
        self._settle([one for one in settled if one.state is not UrlState.PARSING], now)

    def _settle(self, settled: Sequence[Settled], now: float) -> None:
        if not settled:
            return
        by_id = {one.id: one for one in reversed(settled)}
        changed: list[SettledRow] = []
        for number, crawl, origin, state, url in self._rows.owed(list(by_id), self._epoch):
            one = by_id[number]
            if state == UrlState.CLAIMED:
                self._tally.move(crawl, origin, UrlState.CLAIMED, one.state)
                self._count_settled(crawl, one, url, now)
            elif one.state is UrlState.PARSING:
                # Its parse has answered already, and the page was counted then.
                one = one._replace(state=UrlState(state))
                self._tally.count(crawl, "bytes", one.size)
            else:
                continue
            changed.append(
                (number, one.state, one.status, one.reason, one.attempts, one.not_before)
            )
        if changed:
            self._rows.write_settled(changed, now)

    def parsed(self, crawl: int, keys: Sequence[bytes], now: float) -> list[int]:
        if not keys:
            return []
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        done: dict[int, int] = {}
        settled: list[SettledRow] = []
        for place, number, origin, state, one in self._answered(crawl, keys):
            done[number] = place
            self._tally.move(crawl, origin, state, UrlState.DONE)
            if one is not None:
                settled.append((number, UrlState.DONE, one.status, "", one.attempts, 0))
        if settled:
            self._rows.write_settled(settled, now)
        others = list(done.keys() - {row[0] for row in settled})
        if others:
            self._rows.mark_done(others, now)
        return list(done.values())

    def unparsed(self, crawl: int, pages: Sequence[Unparsed], now: float) -> list[int]:
        settled: list[SettledRow] = []
        places = []
        for place, number, origin, state, _ in self._answered(crawl, [page.key for page in pages]):
            page = pages[place]
            after = UrlState.FAILED if page.not_before is None else UrlState.QUEUED
            self._tally.move(crawl, origin, state, after)
            sample = f"{page.url}\n{page.detail}" if page.detail else page.url
            self._tally.error(crawl, page.reason, Errors(1, sample, now, now))
            not_before = page.not_before or 0.0
            settled.append((number, after, page.status, page.reason, page.attempts, not_before))
            places.append(place)
        if settled:
            self._rows.write_settled(settled, now)
        return places

    def _answered(
        self, crawl: int, keys: Sequence[bytes]
    ) -> Iterator[tuple[int, int, int, UrlState, Settled | None]]:
        """Those whose parse was waited for, each once and counted as a page: place, id, origin,
        state, and what this transaction was told of the request."""
        found = set()
        for place, number, state, origin, epoch, reason in self._rows.of_keys(crawl, keys):
            if not UrlState(state).is_pending or number in found:
                continue
            found.add(number)
            was_lost = state == UrlState.QUEUED and reason == LOST
            if state != UrlState.PARSING and not was_lost:
                # What is PARSING was counted then, and so was what seemed lost there.
                self._tally.count(crawl, "pages", 1)
            one = None
            if state == UrlState.CLAIMED:
                one = self._parsing.pop(number, None) if epoch == self._epoch else None
                if one is not None:
                    self._tally.count(crawl, "bytes", one.size)
            yield place, number, origin, UrlState(state), one

    def readmit(self, parsing_since: float, now: float, most_attempts: int, limit: int) -> int:
        changed = 0
        for crawl in self._crawls_with(UrlState.PARSING):
            rows = self._rows.parsing_since(crawl, parsing_since, limit - changed)
            if crawl == NO_CRAWL:
                self._need_no_answer(rows, now)
                continue
            changed += len(rows)
            self._readmit(crawl, rows, now, most_attempts)
        return changed

    def _need_no_answer(self, rows: Sequence[tuple[int, int, int, str]], now: float) -> None:
        """The broker has the parse jobs of fetch jobs, and whoever parses them may say nothing."""
        for _, origin, _, _ in rows:
            self._tally.move(NO_CRAWL, origin, UrlState.PARSING, UrlState.DONE)
        if rows:
            self._rows.mark_done([row[0] for row in rows], now)

    def waiting_crawls(self) -> list[int]:
        return self._crawls_with(UrlState.QUEUED)

    def cancel(self, crawl: int, limit: int) -> int:
        rows = self._rows.queued_of_crawl(crawl, limit)
        return self._end(crawl, rows, UrlState.CANCELLED, "")

    def purge(self, crawl: int, domain: str, limit: int) -> int:
        self._write_tally()
        rows = self._rows.queued_of_domain(crawl, domain, limit)
        return self._end(crawl, rows, UrlState.SKIPPED, PURGED)

    def give_up(self, crawl: int, origin_id: int, reason: str, limit: int) -> int:
        rows = self._rows.queued_of_origin(crawl, origin_id, limit)
        return self._end(crawl, rows, UrlState.FAILED, reason)

    def count_error(self, crawl: int, reason: str, url: str, now: float) -> None:
        self._tally.error(crawl, reason, Errors(1, url, now, now))

    def count(self, crawl: int, deltas: Mapping[str, int]) -> None:
        for name, number in deltas.items():
            if name in STATE_COUNTERS:
                raise ValueError(f"{name} is counted by the store itself")
            self._tally.count(crawl, name, number)

    # Fetch jobs

    def admit_jobs(self, jobs: Sequence[NewJob], now: float) -> set[int]:
        self.admit(NO_CRAWL, [job.url for job in jobs if job.unique is None], now)
        if all(job.unique is None for job in jobs):
            return set()
        decided = decide(self._rows, jobs, now)
        self.admit(NO_CRAWL, decided.fetched, now)
        self._admit_same(decided.same, now)
        if decided.firsts:
            self._rows.keep_first_jobs(decided.firsts)
        return decided.places

    def jobs(self, keys: Sequence[bytes]) -> list[JobRow]:
        self._write_tally()
        return self._rows.jobs(keys)

    def untold_jobs(self, limit: int) -> list[EndedJob]:
        return [
            EndedJob(number, UrlState(state), reason, job)
            for number, state, reason, job in self._rows.untold(limit)
        ]

    def jobs_told(self, ids: Sequence[int]) -> None:
        if ids:
            self._rows.told(ids)

    def forget_jobs(self, before: float, limit: int) -> int:
        rows = self._rows.ended_jobs(before, limit)
        if rows:
            self._rows.forget_jobs(rows)
        for _, origin, state, _ in rows:
            self._tally.forgotten(NO_CRAWL, origin, UrlState(state))
        return len(rows)

    def came_to_nothing(self, url_key: str, job: str, turn: int) -> None:
        firsts = self._rows.first_jobs([url_key])
        if any((first.job, first.turn) == (job, turn) for first in firsts):
            self._rows.forget_first_job(url_key)

    def forget_first_jobs(self, now: float, limit: int) -> int:
        return self._rows.forget_first_jobs(now, limit)

    # Robots

    def robots(self, origins: Collection[str]) -> dict[str, StoredRobots]:
        return self._rows.robots(origins)

    def keep_robots(self, origin: str, robots: StoredRobots) -> None:
        self._rows.keep_robots(origin, robots)

    def forget_robots(self, expired_before: float, most_bytes: int) -> None:
        self._rows.forget_robots(expired_before, most_bytes)

    # Links for other shards

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
        if batches:
            self._tally.count(crawl, "outgoing", len(batches))
            self._rows.send(crawl, batches)

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]:
        return self._rows.outgoing(after, limit)

    def delivered(self, up_to: Mapping[int, int]) -> None:
        for crawl, number in self._rows.forget_outgoing(up_to).items():
            self._tally.count(crawl, "outgoing", -number)

    def receive(self, batches: Sequence[tuple[int, int]]) -> list[int]:
        return self._rows.receive(batches) if batches else []

    # Parts of the above

    def _run_once(self, work: Callable[[], Result]) -> Result:
        with self.transaction():
            return work()

    @contextlib.contextmanager
    def _adding_up(self, transaction: AbstractContextManager[Opened]) -> Iterator[Opened]:
        try:
            with transaction as opened:
                self._places.next_url = None
                yield opened
                self._settle_parsing()
                self._tally.write_last(self._rows)
        except BaseException:
            self._places = Places()
            raise
        finally:
            self._tally = Tally()
            self._parsing = {}

    def _settle_parsing(self) -> None:
        parsing, self._parsing = self._parsing, {}
        self._settle(list(parsing.values()), self._parsing_since)

    def _write_tally(self) -> None:
        self._settle_parsing()
        self._tally.write(self._rows)

    def _take(self, domains: list[StoredDomain]) -> list[StoredDomain]:
        if domains:
            self._rows.take([domain.id for domain in domains], self._epoch)
        return domains

    def _crawls_with(self, state: UrlState) -> list[int]:
        self._write_tally()
        return self._rows.crawls_with(STATE_COUNTERS[state])

    def _count_settled(self, crawl: int, one: Settled, url: str, now: float) -> None:
        is_redirect = 300 <= one.status < 400
        is_answer = one.status != 0 and not is_redirect and not one.state.is_pending
        if is_answer or one.state is UrlState.PARSING:
            self._tally.count(crawl, "pages", 1)
            self._tally.count(crawl, "bytes", one.size)
        if one.reason:
            self._tally.error(crawl, one.reason, Errors(1, url, now, now))

    def _readmit(
        self,
        crawl: int,
        rows: Sequence[tuple[int, int, int, str]],
        now: float,
        most_attempts: int,
    ) -> None:
        changed: list[SettledRow] = []
        for number, origin, attempts, url in rows:
            is_last = attempts + 1 >= most_attempts
            state = UrlState.FAILED if is_last else UrlState.QUEUED
            changed.append((number, state, 0, LOST, attempts + 1, now))
            self._tally.move(crawl, origin, UrlState.PARSING, state)
            self._tally.error(crawl, LOST, Errors(1, url, now, now))
            if not is_last:
                self._tally.count(crawl, "readmitted", 1)
        if changed:
            self._rows.write_settled(changed, now)

    def _admit_same(self, same: Mapping[str, Sequence[NewUrl]], now: float) -> None:
        """By the id of the job that they are the same as."""
        for first, urls in same.items():
            self.admit(NO_CRAWL, urls, now)
            rows = self._rows.of_keys(NO_CRAWL, [url.key for url in urls])
            self._rows.end([number for _, number, *_ in rows], UrlState.SAME, first, now)
            for _, _, _, origin, *_ in rows:
                self._tally.move(NO_CRAWL, origin, UrlState.QUEUED, UrlState.SAME)

    def _end(self, crawl: int, rows: Sequence[WaitingRow], state: UrlState, reason: str) -> int:
        if not rows:
            return 0
        now = clock.now()
        self._rows.end([row[0] for row in rows], state, reason, now)
        for _, origin, url in rows:
            self._tally.move(crawl, origin, UrlState.QUEUED, state)
            if reason:
                self._tally.error(crawl, reason, Errors(1, url, now, now))
        return len(rows)
