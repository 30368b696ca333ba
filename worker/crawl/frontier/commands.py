"""What the control store says of crawls, carried out in the shards of this process: crawls that
start, pause and end, seeds, purges, cancelled URLs, pages that a crawl with a limit may fetch."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from manyhands.shared.crawl.patience import patience_s
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Crawl, CrawlEnds, LeaseLost
from manyhands.shared.crawl.store.sqlite.database import StateError
from manyhands.shared.logs import Logger
from manyhands.shared.settings import CrawlSettings, FetchSettings
from manyhands.worker.crawl.fetching.allowance import ASK_AGAIN_S, Allowance
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.leader import exclusions_of
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.store_thread import StoreThread
from manyhands.worker.crawl.tasks import Tasks

CONTROL_LOOK_S = 0.2
SEED_BATCHES = 20
MOST_SEED_NAMES = 100_000
SEED_NAMES_LOOK_S = 10.0
CANCELLED_AT_ONCE = 5_000


@dataclass(slots=True, eq=False)
class OperatorCommands:
    """State: the version of the control store that was last seen, whether something of it was left
    undone, and the crawls whose pages are asked for. `shards` are the owner's open ones;
    `wake` is called when something may be fetched that could not before, `pages_came` when that is
    so because of a limit."""

    member: str
    directory: Path
    settings: CrawlSettings
    fetch: FetchSettings
    shards: Mapping[int, object]
    control: Control
    store: StoreThread
    crawls: LiveCrawls
    hosts: WorkingSet
    admission: Admission
    tasks: Tasks
    wake: Callable[[], None]
    pages_came: Callable[[], None]
    log: Logger
    _seen_version: int = -1
    _looks_again: bool = True
    _granting: set[int] = field(default_factory=set)

    def look_again(self) -> None:
        """Also if nothing has changed: a shard has come, whose seeds may wait."""
        self._looks_again = True

    async def watch(self) -> None:
        while True:
            version = await self.control.ask(lambda control: control.version())
            if version != self._seen_version or self._looks_again:
                self._seen_version = version
                self._looks_again = False
                await self._crawls_changed()
            await asyncio.sleep(CONTROL_LOOK_S)

    async def watch_seed_names(self) -> None:
        """What a seed redirects to in another process is a seed's, too."""
        while True:
            await asyncio.sleep(SEED_NAMES_LOOK_S)
            await self._know_seeds()

    def wants_pages(self, crawl: LiveCrawl) -> None:
        if crawl.id in self._granting or crawl.allowance is None:
            return
        limit = crawl.spec.limits.pages
        assert limit is not None
        self._granting.add(crawl.id)
        self.tasks.spawn(self._grant(crawl.id, crawl.allowance, limit))

    async def return_pages(self) -> None:
        """What an idle process may fetch, a busy one could."""
        now = asyncio.get_running_loop().time()
        for crawl in list(self.crawls.by_id.values()):
            unused = crawl.allowance.take_unused(now) if crawl.allowance is not None else 0
            if unused:
                await self.control.ask(
                    lambda control, c=crawl.id, u=unused: control.return_pages(c, self.member, u)  # type: ignore[misc]
                )

    async def _crawls_changed(self) -> None:
        crawls = await self.control.ask(lambda control: control.live_crawls())
        made = {}
        for crawl in crawls:
            if crawl.id not in self.crawls.by_id:
                live = await self.control.in_thread(partial(self._make_live, crawl))
                if live is not None:
                    made[crawl.id] = live
                else:
                    self._looks_again = True  # when its set-up is done
        stopped = self.crawls.update(crawls, made)
        self.crawls.obey(await self.control.ask(lambda control: control.rules()))
        await self._know_seeds()
        self.hosts.crawls_stopped(stopped)
        self.wake()
        for number in list(self.shards):
            await self._take_seeds(number)
            await self._purge(number)
        for crawl in crawls:
            if crawl.state is CrawlState.STOPPING and crawl.ends_as is CrawlState.CANCELLED:
                await self._cancel(crawl.id)
                # What is in flight may come back, and pages that are parsed bring links.
                self._looks_again = True

    def _make_live(self, crawl: Crawl) -> LiveCrawl | None:
        """None: the leader has not set it up yet."""
        exclusions = exclusions_of(self.directory, crawl)
        if exclusions is None:
            return None
        agent = f"{self.fetch.user_agent} (+mailto:{crawl.spec.contact})"
        allowance = None if crawl.spec.limits.pages is None else Allowance()
        scope = Scope(crawl.spec.scope, exclusions)
        patience = patience_s(
            crawl.spec,
            limited_s=self.settings.limited_patience_s,
            unlimited_s=self.settings.patience_s,
        )
        return LiveCrawl(crawl.id, crawl.spec, crawl.state, scope, agent, patience, allowance)

    async def _know_seeds(self) -> None:
        """Which names are in scope by the seeds, if they are few enough to be known here."""
        for crawl in list(self.crawls.by_id.values()):
            if crawl.spec.scope.within in ("hosts", "domains") and crawl.is_running:
                try:
                    names = await self.control.seed_names(crawl.id, MOST_SEED_NAMES)
                except StateError:
                    return  # a shard is damaged, which is said elsewhere; what is known stays
                if names is None or names != crawl.seed_names:
                    crawl.seed_names = names

    async def _take_seeds(self, number: int) -> None:
        while True:
            batches = await self.control.ask(lambda control: control.seeds(number, SEED_BATCHES))
            known = [batch for batch in batches if batch.crawl in self.crawls.by_id]
            if len(known) < len(batches):
                self._looks_again = True
            if not known or number not in self.shards:
                return
            try:
                misplaced = await self.admission.seeds(number, known)
            except LeaseLost:
                return
            for crawl, by_shard in misplaced.items():
                await self._add_seeds(crawl, by_shard)
            ids = [batch.id for batch in known]
            await self.control.ask(lambda control, ids=ids: control.seeds_taken(ids))  # type: ignore[misc]

    async def _add_seeds(self, crawl: int, by_shard: dict[int, list[str]]) -> None:
        try:
            await self.control.ask(lambda control: control.add_seeds(crawl, by_shard))
        except CrawlEnds:
            self.log.info("seeds of a crawl that ends are left out", crawl=crawl)

    async def _purge(self, number: int) -> None:
        for purge in await self.control.ask(lambda control: control.purges(number)):
            try:
                while await self.store.change(
                    number,
                    lambda store, p=purge: store.purge(p.crawl, p.domain, CANCELLED_AT_ONCE),  # type: ignore[misc]
                ):
                    pass
            except LeaseLost:
                return
            await self.control.ask(lambda control, p=purge: control.purge_done(p.id))  # type: ignore[misc]

    async def _cancel(self, crawl: int) -> None:
        for number in list(self.shards):
            try:
                while await self.store.change(
                    number, lambda store: store.cancel(crawl, CANCELLED_AT_ONCE)
                ):
                    pass
            except LeaseLost:
                continue

    async def _grant(self, crawl: int, allowance: Allowance, limit: int) -> None:
        loop = asyncio.get_running_loop()
        wanted = allowance.wanted(limit, self.crawls.members, loop.time())
        granted = 0
        try:
            granted = await self.control.ask(
                lambda control: control.grant_pages(crawl, self.member, wanted, limit)
            )
        finally:
            loop.call_later(0 if granted else ASK_AGAIN_S, self._granting.discard, crawl)
        if granted:
            allowance.given(granted, loop.time())
            self.pages_came()
