"""Fetch jobs: how they come in, and how their producers hear of those that brought no page.

A job that came to nothing becomes a dead job: one that its producer finds in the dead set, with the
reason, and may requeue. It is pushed once the store has the end of the URL, and the store forgets
to tell of it once the broker has it: so none is lost, and after a crash in between one is pushed
twice, under the same jid.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from manyhands.shared.crawl.canonical import origin_of
from manyhands.shared.crawl.fetch_jobs import FetchJob, cause_of, url_key
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import (
    EndedJob,
    LeaseLost,
    NewJob,
    NewUrl,
    Settled,
    Unique,
)
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.logs import get_logger
from manyhands.shared.urls import Url, registrable_domain
from manyhands.worker.crawl.frontier.admission import Admission, Told
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.jobs.stage_services import Push

# By then the store has what was settled before.
TELL_S = 1.0
# Of one shard.
TOLD_AT_ONCE = 500
FORGOTTEN_AT_ONCE = 1_000
# Side by side: a store in another place takes its time, and works on several.
FORGOTTEN_IN_SHARDS = 8


class FetchJobs:
    """State: the shards in which jobs may have ended without a page, since the last look and before
    that; and since then, how many jobs came by queues of other numbers of shards, and how many were
    the same as earlier ones. `owned` are the owner's open shards; `told_coming` is
    called with what is about to be admitted, `told_new` with what was, to be fetched."""

    def __init__(
        self,
        store: StoreThreads,
        owned: Mapping[int, OwnedShard],
        admission: Admission,
        push: Push,
        told_coming: Told,
        told_new: Told,
        *,
        kept_s: float,
    ) -> None:
        self._store = store
        self._owned = owned
        self._admission = admission
        self._push = push
        self._told_coming = told_coming
        self._told_new = told_new
        self._kept_s = kept_s
        self._ended: set[int] = set()
        self._due: set[int] = set()
        self._moved = self._same = 0
        self._log = get_logger("crawl")

    async def admit(self, shard: int, url: Url, job: FetchJob) -> None:
        """Return when the store has it; one that it has seen already is left as it is, and one that
        is the same as an earlier one is not fetched. Raises LeaseLost when the shard is not owned
        here."""
        new = NewUrl(
            key=job.key,
            url=url.text,
            origin=origin_of(url.text),
            domain=registrable_domain(url.host),
            depth=0,
            redirects=job.hop,
            job=job.to_text(),
        )
        unique = None
        if job.unique_for_s:
            unique = Unique(url_key(url.text), job.id, job.turn, job.unique_for_s)
        is_same = self._store.change_with(shard, _admit, NewJob(new, unique))
        self._told_coming(shard, [new])
        if await is_same:
            self._same += 1
        else:
            self._told_new(shard, [new])

    def moved_one(self) -> None:
        """To the queue of its shard."""
        self._moved += 1

    # Those that brought no page

    def shard_opened(self, shard: OwnedShard) -> None:
        self._ended.add(shard.number)

    def settled(self, shard: OwnedShard, settled: Settled) -> None:
        if settled.state > UrlState.REDIRECTED:
            self._ended.add(shard.number)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            due, self._due, self._ended = self._due, self._ended, set()
            self._log_counts()
            for number in due:
                try:
                    await self._tell(number)
                except LeaseLost:
                    continue
                except ManyhandsError as error:
                    self._ended.add(number)
                    self._log.error(
                        "dead jobs could not be pushed, and wait", shard=number, reason=str(error)
                    )

    def look_everywhere(self) -> None:
        """Some end without being settled: hosts that are given up, URLs that operators purge."""
        self._ended.update(self._owned)

    async def forget(self) -> None:
        """Those that ended long ago."""
        before = clock.now() - self._kept_s
        numbers = iter(list(self._owned))
        await asyncio.gather(
            *(self._forget_in(numbers, before) for _ in range(FORGOTTEN_IN_SHARDS))
        )

    async def _forget_in(self, numbers: Iterator[int], before: float) -> None:
        for number in numbers:
            with suppress(LeaseLost):
                while await self._store.change(number, partial(_forget, before=before)):
                    pass

    def _log_counts(self) -> None:
        for jobs, what in (
            (self._moved, "fetch jobs were not in the queues of their shards, and go there"),
            (self._same, "fetch jobs are the same as earlier ones, and are not fetched"),
        ):
            if jobs:
                self._log.info(what, jobs=jobs)
        self._moved = self._same = 0

    async def _tell(self, number: int) -> None:
        ended = await self._store.change(number, _untold)
        if not ended:
            return
        jobs = [FetchJob.of_text(one.job) for one in ended]
        dead = [
            job.failed_by(cause_of(one.state, one.reason), self._admission.shards)
            for job, one in zip(jobs, ended, strict=True)
            if job.is_told_of_death
        ]
        if dead:
            await self._push(dead)
            self._log.info("fetch jobs that brought no page go to the dead set", jobs=len(dead))
        await self._store.change(number, partial(_told, ended=ended, jobs=jobs))
        self._ended.add(number)


def _admit(store: ShardStore, jobs: list[NewJob]) -> list[bool]:
    """Which of them are the same as earlier ones."""
    same = store.admit_jobs(jobs, clock.now())
    return [place in same for place in range(len(jobs))]


def _untold(store: ShardStore) -> list[EndedJob]:
    return store.untold_jobs(TOLD_AT_ONCE)


def _told(store: ShardStore, ended: Sequence[EndedJob], jobs: Sequence[FetchJob]) -> None:
    store.jobs_told([one.id for one in ended])
    for job in jobs:
        if job.unique_url_key is not None:
            store.came_to_nothing(job.unique_url_key, job.id, job.turn)


def _forget(store: ShardStore, before: float) -> bool:
    """Whether there may be more."""
    jobs = store.forget_jobs(before, FORGOTTEN_AT_ONCE)
    firsts = store.forget_first_jobs(clock.now(), FORGOTTEN_AT_ONCE)
    return FORGOTTEN_AT_ONCE in (jobs, firsts)
