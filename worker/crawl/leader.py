"""Work that one process does for all: sets crawls up, ends them, changes the number of shards."""

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple

from manyhands.shared.crawl.messages import crawl_queues, untagged_crawl_queues
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.absence import were_here_for
from manyhands.shared.crawl.store.errors import StateAway, StateError
from manyhands.shared.crawl.store.model import HELD_PAGES, Crawl, Layout, Member
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.errors import InvalidUrl, ManyhandsError
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import CrawlSettings
from manyhands.shared.urls import parse_url, shard_of_url
from manyhands.worker.crawl.crawl_files import file_of, opened, read_exclusions
from manyhands.worker.crawl.progress import (
    ProgressLines,
    Totals,
    is_near_its_end,
    limit_reached,
    why_failed,
)
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.leases import RENEWALS

LEADER_TTL_S = 5.0
PROGRESS_S = 1.0
# The owner of all leases while the number changes; a killed process leaves them behind.
RESHARDING = "reshard"
# A crawl has lost pages that were granted if it stands still with something to fetch while all
# members have reported this often what they hold.
TOLD_AT_STANDSTILL = 3
SEED_LINES_AT_ONCE = 5_000
# Queue names have two digits up to the first number of shards, three up to the next, and so on.
WIDTHS = (100, 1000)
# Within so long the parse stage has answered every page that it got before this process led: what
# is older counts as lost there.
ANSWERED_WITHIN_S = 900.0


class _Standstill(NamedTuple):
    """`since` is on the monotonic clock; `given` are the pages granted at that time."""

    since: float
    given: int


class Leader:
    """State: whether it leads, whether a crawl is near its end, until when messages may come by
    queues without a tag, what was said of progress, and each crawl's last figures: one that has
    nothing to do and has not changed between two checks is complete."""

    def __init__(
        self,
        name: str,
        settings: CrawlSettings,
        control: Control,
    ) -> None:
        self._name = name
        self._settings = settings
        self._control = control
        self._ask = control.ask
        self._seen: dict[int, Totals] = {}
        self._still: dict[int, _Standstill] = {}
        self._progress = ProgressLines()
        # Crawls whose state could not be read at the last look.
        self._unknown: set[int] = set()
        self._log = get_logger("crawl").bind(role="leader")
        self.is_leading = False
        self.is_near_an_end = False
        # On the monotonic clock; None: to be decided at the next look.
        self._untagged_until: float | None = None

    @property
    def reads_untagged_queues(self) -> bool:
        """Queues had no tag in their names once. Crawls that went on then may have messages there,
        and pages in the parse stage whose answers go there. A store without such crawls leaves
        these queues to the one that they are meant for."""
        until = self._untagged_until
        return self.is_leading and until is not None and time.monotonic() < until

    async def leads(self) -> bool:
        leads: bool = await self._ask(lambda control: control.lead(self._name, LEADER_TTL_S))
        if leads and not self.is_leading:
            self._log.info("became the leader")
            self._untagged_until = None
        self.is_leading = leads
        return leads

    async def tick(self, shards: int) -> None:
        self.is_near_an_end = False
        if not await self.leads():
            return
        crawls: list[Crawl] = await self._ask(lambda control: control.live_crawls())
        if self._untagged_until is None:
            have_begun = any(crawl.state is not CrawlState.STARTING for crawl in crawls)
            self._untagged_until = time.monotonic() + (ANSWERED_WITHIN_S if have_begun else 0.0)
        for crawl in crawls:
            try:
                await self._tend(crawl, shards)
                self._unknown.discard(crawl.id)
            except StateAway:
                # Said by `store_watch`; the crawl goes on.
                continue
            except StateError as error:
                # Its progress is unknown, so it goes on.
                if crawl.id not in self._unknown:
                    self._unknown.add(crawl.id)
                    self._log.error(
                        "the state of a crawl cannot be read: it goes on",
                        crawl=crawl.id,
                        reason=str(error),
                    )
            except ManyhandsError as error:
                self._log.error("crawl failed", crawl=crawl.id, reason=str(error))
                await self._end(crawl, CrawlState.FAILED, str(error))

    async def _tend(self, crawl: Crawl, shards: int) -> None:
        # Before the counters: seeds taken between the two reads show up in the counters.
        waiting: int = await self._ask(lambda control: control.seeds_waiting(crawl.id))
        if crawl.state is CrawlState.STARTING:
            self.is_near_an_end = True
            await self._set_up(crawl, shards, waiting)
            return
        totals = Totals.of(await self._control.counters(crawl.id))
        if line := self._progress.line(crawl.id, totals, time.monotonic()):
            self._log.info("progress", crawl=crawl.id, state=str(crawl.state), **line)
        is_stopping = crawl.state is CrawlState.STOPPING
        self.is_near_an_end |= is_stopping or is_near_its_end(crawl, totals)
        if is_stopping:
            await self._finish_stopping(crawl, totals)
            return
        reason = limit_reached(crawl, totals, clock.now())
        if reason is not None:
            await self._change(crawl, CrawlState.STOPPING, reason, ends_as=CrawlState.LIMIT_REACHED)
        elif crawl.state is CrawlState.RUNNING:
            await self._free_lost_pages(crawl, totals)
            await self._finish_if_complete(crawl, totals, waiting)

    # Set-up

    async def _set_up(self, crawl: Crawl, shards: int, waiting: int) -> None:
        """Each step may be repeated: a leader that is killed is followed by one that goes on."""
        await self._keep_exclusions(crawl)
        if crawl.spec.seed_file is not None and not crawl.has_all_seeds:
            if await self._ask(lambda control: control.files.seed_file(crawl.id)) is None:
                # Of an earlier release; all others are read by the API.
                await self._read_seed_file(crawl, shards)
            return
        if crawl.has_all_seeds and not waiting:
            await self._change(crawl, CrawlState.RUNNING)
            self._log.info("crawl started", crawl=crawl.id)

    async def _keep_exclusions(self, crawl: Crawl) -> None:
        name = crawl.spec.exclusions_file
        if name is None:
            return
        if not await self._ask(lambda control: control.files.has_exclusions(crawl.id)):
            # Of an earlier release; all others come with them.
            text = await asyncio.to_thread(read_exclusions, self._settings, name)
            await self._ask(lambda control: control.files.keep_exclusions(crawl.id, text))

    async def _read_seed_file(self, crawl: Crawl, shards: int) -> None:
        path = file_of(self._settings, crawl.spec.seed_file or "")
        done = crawl.seed_file_lines
        with opened(path) as lines:
            left = islice(lines, done, None)
            while chunk := list(islice(left, SEED_LINES_AT_ONCE)):
                done += len(chunk)
                by_shard, bad = _seeds_by_shard(chunk, shards)
                await self._add_seeds(crawl, done, by_shard)
                if bad:
                    await self._note(crawl, f"{bad} lines of the seed file are not URLs")
                await self.leads()
        await self._ask(lambda control: control.all_seeds_added(crawl.id, done))

    async def _add_seeds(self, crawl: Crawl, lines: int, by_shard: dict[int, list[str]]) -> None:
        await self._ask(lambda control: control.seed_file_read(crawl.id, lines, by_shard))

    # Ends

    async def _finish_if_complete(self, crawl: Crawl, totals: Totals, waiting: int) -> None:
        before = self._seen.get(crawl.id)
        self._seen[crawl.id] = totals
        # Nothing is unfinished, and nothing changed between two reads of all shards: so at some
        # moment nothing was unfinished anywhere, and nothing more can come.
        if totals.owed or waiting or before is None or before.changes != totals.changes:
            return
        failure = why_failed(totals)
        state = CrawlState.COMPLETED if failure is None else CrawlState.FAILED
        await self._end(crawl, state, failure or "every URL has come to its end")

    async def _free_lost_pages(self, crawl: Crawl, totals: Totals) -> None:
        """Pages granted to a process that died are granted again once nothing moves and every
        member has reported since that it holds none. By then all fetched pages are counted, and a
        member that wants to fetch one more has to ask."""
        if crawl.spec.limits.pages is None:
            return
        before = self._seen.get(crawl.id)
        # After an absence of the store, members must first be able to say what they hold.
        is_known = were_here_for(
            self._control.store.absences, self._settings.lease_s, time.monotonic()
        )
        if before is None or before.changes != totals.changes or not totals.owed or not is_known:
            self._still.pop(crawl.id, None)
            return
        still = self._still.get(crawl.id)
        if still is None:
            given: int = await self._ask(lambda control: control.granted_pages(crawl.id))
            self._still[crawl.id] = _Standstill(time.monotonic(), given)
            return
        told_after_s = TOLD_AT_STANDSTILL * self._settings.lease_s / RENEWALS
        if time.monotonic() - still.since < told_after_s:
            return
        del self._still[crawl.id]
        members: list[Member] = await self._ask(lambda control: control.members())
        if still.given > totals.pages and not any(
            member.figures.get(HELD_PAGES, 0) for member in members
        ):
            await self._ask(
                lambda control: control.reset_pages(crawl.id, totals.pages, still.given)
            )

    async def _finish_stopping(self, crawl: Crawl, totals: Totals) -> None:
        ends_as = crawl.ends_as or CrawlState.CANCELLED
        is_cancelled = ends_as is CrawlState.CANCELLED
        if totals.in_flight or (is_cancelled and totals.queued):
            return
        await self._end(crawl, ends_as, crawl.reason)

    async def _end(self, crawl: Crawl, state: CrawlState, reason: str) -> None:
        await self._change(crawl, state, reason)
        self._seen.pop(crawl.id, None)
        self._still.pop(crawl.id, None)
        self._progress.forget(crawl.id)
        self._log.info("crawl ended", crawl=crawl.id, state=str(state), reason=reason)

    async def _change(
        self,
        crawl: Crawl,
        state: CrawlState,
        reason: str = "",
        ends_as: CrawlState | None = None,
    ) -> None:
        await self._ask(
            lambda control: control.change_state(
                crawl.id, {crawl.state}, state, clock.now(), reason=reason, ends_as=ends_as
            )
        )

    async def _note(self, crawl: Crawl, text: str) -> None:
        await self._ask(lambda control: control.note(crawl.id, text, clock.now()))

    # The number of shards

    async def reshard(self, layout: Layout, wanted: int) -> None:
        """Once no process owns a shard of the old layout."""
        leases = await self._ask(lambda control: control.leases())
        if any(lease.is_live and lease.owner != RESHARDING for lease in leases):
            self._log.info("waiting for owners of the old shards to stop", shards=layout.shards)
            await asyncio.sleep(1)
            return
        self._log.info("changing the number of shards", of=layout.shards, to=wanted)
        await self._ask(partial(self._change_shards, shards=wanted))

    def _change_shards(self, control: ControlStore, shards: int) -> None:
        """In the control store's thread."""
        log, told_at = get_logger("crawl").bind(member=self._name), 0.0

        def told(done: int, of: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= PROGRESS_S:
                told_at = time.monotonic()
                # The thread that does the work also renews the leader's lease.
                control.lead(self._name, LEADER_TTL_S)
                log.info("changing the number of shards", done=done, of=of, to=shards)

        self._control.store.reshard(control, shards, told)

    def leftover_queues(self, most_ever: int, shards: int) -> list[str]:
        """Queues of earlier numbers of shards, and without a tag, which may still hold jobs: what
        is not ours goes on to the owner of its shard."""
        tag = self._control.tag
        counts = {min(most_ever, width) for width in (*WIDTHS, most_ever)}
        names = {name for count in counts for name in crawl_queues(tag, count)}
        names -= set(crawl_queues(tag, shards))
        if self.reads_untagged_queues:
            names |= {name for count in counts for name in untagged_crawl_queues(count)}
        return sorted(names)


def _seeds_by_shard(lines: Iterable[str], shards: int) -> tuple[dict[int, list[str]], int]:
    by_shard: dict[int, list[str]] = {}
    bad = 0
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            url = parse_url(text).text
        except InvalidUrl:
            bad += 1
            continue
        by_shard.setdefault(shard_of_url(url, shards), []).append(url)
    return by_shard, bad
