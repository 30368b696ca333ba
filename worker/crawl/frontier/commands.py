"""Carries out in this process's shards what the control store says: crawls that start, pause and
end, seeds, purges, cancelled URLs."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from functools import partial

from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.patience import patience_s
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import Crawl, CrawlEnds, LeaseLost, Purge
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import CrawlSettings
from manyhands.worker.crawl.crawl_files import SharedExclusions
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.allowance import Allowance
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.working_set import WorkingSet, give_back
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.leasing import Leasing
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.crawl.wakeup import Wakeup

CONTROL_LOOK_S = 0.2
SEED_BATCHES = 20
MOST_SEED_NAMES = 100_000
SEED_NAMES_LOOK_S = 10.0
CANCELLED_AT_ONCE = 5_000
ENDED_LOOK_S = 1.0
# Their seeds are in memory at the same time.
SHARDS_AT_ONCE = 8


class OperatorCommands:
    """State: the last version of the control store seen, whether any of it was left undone, the
    crawls of which people were told that their exclusions are damaged, and those that ran when a
    shard was last looked through for URLs of others.
    `wakeup` is called when something may be fetched that could not before."""

    def __init__(
        self,
        settings: CrawlSettings,
        user_agent: str,
        *,
        leasing: Leasing,
        control: Control,
        store: StoreThreads,
        crawls: LiveCrawls,
        working_set: WorkingSet,
        admission: Admission,
        wakeup: Wakeup,
    ) -> None:
        self._settings = settings
        self._user_agent = user_agent
        self._shards = leasing.shards
        self._control = control
        self._store = store
        self._crawls = crawls
        self._working_set = working_set
        self._admission = admission
        self._wakeup = wakeup
        self._log = get_logger("crawl").bind(member=leasing.name)
        self._exclusions = SharedExclusions()
        self._told_of: set[int] = set()
        self._looked_at: dict[OwnedShard, set[int]] = {}
        self._seen_version = -1
        self._looks_again = True

    def shard_opened(self, _shard: OwnedShard) -> None:
        """Check again even if nothing has changed: its seeds may wait."""
        self._looks_again = True

    async def watch(self) -> None:
        while True:
            version = await self._control.ask(lambda control: control.version())
            if version != self._seen_version or self._looks_again:
                self._seen_version = version
                self._looks_again = False
                await self._crawls_changed()
            await asyncio.sleep(CONTROL_LOOK_S)

    async def watch_seed_names(self) -> None:
        """The target of a seed's redirect counts as a seed, also in another process."""
        while True:
            await asyncio.sleep(SEED_NAMES_LOOK_S)
            await self._know_seeds()

    async def watch_ended(self) -> None:
        """What still waits of crawls that have ended is cancelled: nobody waits for it."""
        while True:
            await asyncio.sleep(ENDED_LOOK_S)
            live, looked_at = set(self._crawls.by_id), {}
            for number, shard in list(self._shards.items()):
                with contextlib.suppress(LeaseLost):
                    if self._looked_at.get(shard) != live:
                        await self._cancel_ended(number, live)
                    looked_at[shard] = live
            self._looked_at = looked_at

    async def _cancel_ended(self, number: int, live: Collection[int]) -> None:
        """Raises LeaseLost."""
        waiting = await self._store.change(number, lambda store: store.waiting_crawls())
        for crawl in set(waiting).difference(live, {NO_CRAWL}):
            # One that was started since this process looked is not among the live ones yet.
            found = await self._control.ask(lambda control, crawl=crawl: control.crawl(crawl))  # type: ignore[misc]
            if found.state.is_final:
                await self._cancel_in(number, crawl)

    async def _crawls_changed(self) -> None:
        crawls = await self._control.ask(lambda control: control.live_crawls())
        made = {}
        for crawl in crawls:
            if crawl.id not in self._crawls.by_id:
                live = await self._make_live(crawl)
                if live is not None:
                    made[crawl.id] = live
                else:
                    self._looks_again = True  # when its set-up is done
        rules = await self._control.ask(lambda control: control.rules())
        # Nothing comes in between: no crawl runs here before its rules are known.
        stopped = self._crawls.update(crawls, made)
        changed = self._crawls.obey(rules)
        if stopped or changed:
            self._working_set.orders_changed(changed)
        await self._know_seeds()
        self._wakeup.wake()
        waiting = await self._control.ask(lambda control: control.shards_with_orders())
        with_orders = [number for number in self._shards if number in waiting]
        for start in range(0, len(with_orders), SHARDS_AT_ONCE):
            some = with_orders[start : start + SHARDS_AT_ONCE]
            await asyncio.gather(*(self._carry_out(number) for number in some))
        for crawl in crawls:
            if crawl.state is CrawlState.STOPPING and crawl.ends_as is CrawlState.CANCELLED:
                await self._cancel(crawl.id)
                # Requests in flight may be queued again, and pages being parsed bring links.
                self._looks_again = True

    async def _make_live(self, crawl: Crawl) -> LiveCrawl | None:
        """None: the leader has not set it up yet, or its exclusions are damaged."""
        text: str | None = ""
        if crawl.spec.exclusions_file is not None:
            try:
                text = await self._control.ask(lambda control: control.files.exclusions(crawl.id))
            except StateError as error:
                if crawl.id not in self._told_of:
                    self._told_of.add(crawl.id)
                    self._log.error("a crawl cannot go on", crawl=crawl.id, reason=str(error))
                return None
        if text is None:
            return None
        exclusions = await asyncio.to_thread(self._exclusions.parsed, text)
        agent = f"{self._user_agent} (+mailto:{crawl.spec.contact})"
        allowance = None if crawl.spec.limits.pages is None else Allowance()
        scope = Scope(crawl.spec.scope, exclusions)
        patience = patience_s(
            crawl.spec,
            limited_s=self._settings.limited_patience_s,
            unlimited_s=self._settings.patience_s,
        )
        return LiveCrawl(crawl.id, crawl.spec, crawl.state, scope, agent, patience, allowance)

    async def _know_seeds(self) -> None:
        """Learn which names the seeds put in scope, if they are few enough to keep here."""
        for crawl in list(self._crawls.by_id.values()):
            if crawl.spec.scope.within in ("hosts", "domains") and crawl.is_running:
                try:
                    names = await self._control.seed_names(crawl.id, MOST_SEED_NAMES)
                except StateError:
                    return  # a shard is damaged, which is reported elsewhere; keep what is known
                if names is None or names != crawl.seed_names:
                    crawl.seed_names = names

    async def _carry_out(self, number: int) -> None:
        await self._take_seeds(number)
        await self._purge(number)

    async def _take_seeds(self, number: int) -> None:
        while True:
            batches = await self._control.ask(lambda control: control.seeds(number, SEED_BATCHES))
            known = [batch for batch in batches if batch.crawl in self._crawls.by_id]
            if len(known) < len(batches):
                self._looks_again = True
            if not known or number not in self._shards:
                return
            try:
                misplaced = await self._admission.seeds(number, known)
            except LeaseLost:
                return
            for crawl, by_shard in misplaced.items():
                await self._add_seeds(crawl, by_shard)
            ids = [batch.id for batch in known]
            await self._control.ask(lambda control, ids=ids: control.seeds_taken(ids))  # type: ignore[misc]

    async def _add_seeds(self, crawl: int, by_shard: dict[int, list[str]]) -> None:
        try:
            await self._control.ask(lambda control: control.add_seeds(crawl, by_shard))
        except CrawlEnds:
            self._log.info("seeds of an ending crawl are left out", crawl=crawl)

    async def _purge(self, number: int) -> None:
        for purge in await self._control.ask(lambda control: control.purges(number)):
            may_come = True
            while may_come:
                if (shard := self._shards.get(number)) is None:
                    return
                may_come = give_back(self._working_set, shard, purge.crawl, purge.domain)
                if not await self._repeat(number, partial(_purge_some, purge=purge)):
                    return
            await self._control.ask(lambda control, p=purge: control.purge_done(p.id))  # type: ignore[misc]

    async def _cancel(self, crawl: int) -> None:
        for number in list(self._shards):
            await self._cancel_in(number, crawl)

    async def _cancel_in(self, number: int, crawl: int) -> None:
        await self._repeat(number, lambda store: store.cancel(crawl, CANCELLED_AT_ONCE))

    async def _repeat(self, number: int, change: Callable[[ShardStore], int]) -> bool:
        """Repeat until it changes nothing more; False: the shard was lost before."""
        try:
            while await self._store.change(number, change):
                pass
        except LeaseLost:
            return False
        return True


def _purge_some(store: ShardStore, purge: Purge) -> int:
    return store.purge(purge.crawl, purge.domain, CANCELLED_AT_ONCE)
