"""What can be done with crawls, for the routes. Everything here raises Problem.

Several processes of the service, and the workers, use the same store at the same time.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from manyhands.api.crawls import views
from manyhands.api.crawls.counts import CrawlCounts
from manyhands.api.crawls.dry_run import NOT_LOOKED_AT, DryRun
from manyhands.api.crawls.fetch_jobs import FetchJobState, find
from manyhands.api.crawls.files import read_files, read_scope
from manyhands.api.crawls.limited_by import HeldDomain, figures_of
from manyhands.api.crawls.look import Look
from manyhands.api.crawls.model import (
    CrawlChange,
    CrawlPage,
    CrawlRequest,
    CrawlView,
    DomainList,
    DomainOrder,
    DomainRuleView,
    DryRunAnswer,
    DryRunRequest,
    ErrorList,
    PurgeOfAllOrdered,
    PurgeOrdered,
    UrlPage,
)
from manyhands.api.crawls.orders import CrawlAction, carry_out, refuse_if_ending
from manyhands.api.crawls.paging import cursor, not_a_cursor, read_cursor
from manyhands.api.crawls.rates import Rates
from manyhands.api.crawls.seed_files import SeedFiles
from manyhands.api.crawls.seeds import Seed, by_shard, check_seeds, urls_among
from manyhands.api.crawls.store import CrawlStore, open_store
from manyhands.api.crawls.watching import CrawlWatch
from manyhands.api.problems import Problem, unprocessable
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.patience import patience_s
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import (
    Crawl,
    CrawlEnds,
    DomainRule,
    KeyConflict,
    Layout,
    NewCrawl,
    StoredOrigin,
    UrlRow,
)
from manyhands.shared.crawl.store.protocol import ControlStore, ShardReaders
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.http.limits import PAGE_BYTES
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import AllowSettings, CrawlSettings
from manyhands.shared.urls import parse_host, registrable_domain, shard_of_domain

MAX_NOTES = 20


class CrawlService:
    """State: the last looks at the crawls, the count of those that ended, and the seed files that
    this process reads."""

    def __init__(self, store: CrawlStore, settings: CrawlSettings, addresses: AddressRule) -> None:
        """`addresses` are those that seeds may have."""
        self._store = store
        self.addresses = addresses
        self._settings = settings
        self._files = settings.files
        # Without a directory, no crawl that names a file is taken here.
        self._seed_files = None if self._files is None else SeedFiles(store, self._files, addresses)
        self._rates = Rates()
        self._counts = CrawlCounts()
        self._watch = CrawlWatch(store)

    async def close(self) -> None:
        if self._seed_files is not None:
            await self._seed_files.close()
        await self._store.close()

    # Start

    async def start(
        self, request: CrawlRequest, seeds: Sequence[Seed], idempotency_key: str | None
    ) -> tuple[Crawl, bool]:
        """The crawl, and whether it is new: with its seeds, or not at all. What a request with the
        same key has begun and not ended is ended here: seeds stored twice are taken once."""
        spec = request.spec()
        has_all_seeds = spec.seed_file is None and not request.more_seeds
        exclusions = await self._store.aside(partial(read_files, self._files, spec))

        def create(control: ControlStore) -> tuple[Crawl, bool]:
            new = NewCrawl(
                *(spec, idempotency_key, request.fingerprint()),
                self._by_shard(control, seeds),
                has_all_seeds,
                exclusions,
            )
            crawl, is_new = control.create_crawl(new, clock.now())
            if is_new or crawl.has_all_seeds or crawl.state is not CrawlState.STARTING:
                return crawl, is_new
            self._add(control, crawl.id, seeds)
            if has_all_seeds:
                control.all_seeds_added(crawl.id)
            return crawl, is_new

        try:
            started = await self._store.control(create)
        except KeyConflict:
            raise unprocessable(
                "this Idempotency-Key was used for a different request", field="Idempotency-Key"
            ) from None
        if spec.seed_file is not None and self._seed_files is not None:
            self._seed_files.look_soon()
        return started

    async def dry_run(self, request: DryRunRequest) -> DryRunAnswer:
        check_seeds(request.seeds, self.addresses)
        scope = await self._store.aside(partial(read_scope, self._files, request))

        def look(control: ControlStore) -> tuple[str, Layout, list[DomainRule]]:
            return control.tag(), self._store.layout(control), control.rules()

        tag, layout, rules = await self._store.control(look)
        blocked = {rule.domain for rule in rules if rule.is_blocked and rule.crawl is None}
        seeds = urls_among(request.seeds or request.urls)
        run = DryRun(scope, seeds, tag, layout.shards, blocked)
        # A thousand URLs against a thousand patterns would hold up everybody else.
        judged = await self._store.aside(lambda: list(run.judge(request.urls)))
        return DryRunAnswer(urls=judged, not_looked_at=NOT_LOOKED_AT)

    # Seeds

    async def open_for_seeds(self, crawl: int) -> None:
        refuse_if_ending(await self._store.control(lambda control: control.crawl(crawl)))

    async def add_seeds(self, crawl: int, seeds: Sequence[Seed]) -> Mapping[int, Problem]:
        """Those that were not stored, by index: none or all."""

        def add(control: ControlStore) -> None:
            refuse_if_ending(control.crawl(crawl))
            try:
                self._add(control, crawl, seeds)
            except CrawlEnds:
                # Since the look before.
                refuse_if_ending(control.crawl(crawl))
                raise

        try:
            await self._store.control(add)
        except Problem as problem:
            return dict.fromkeys(range(len(seeds)), problem)
        return {}

    async def end_seeds(self, crawl: int) -> None:
        """No more will come. For seeds from a file, whoever reads it says so."""

        def end(control: ControlStore) -> None:
            found = control.crawl(crawl)
            if found.spec.seed_file is None and not found.has_all_seeds:
                control.all_seeds_added(crawl)

        await self._store.control(end)

    def _add(self, control: ControlStore, crawl: int, seeds: Sequence[Seed]) -> None:
        if seeds:
            control.add_seeds(crawl, self._by_shard(control, seeds))

    def _by_shard(self, control: ControlStore, seeds: Sequence[Seed]) -> dict[int, list[str]]:
        """By the layout at this moment: it may have changed since the request came."""
        return by_shard(seeds, self._store.layout(control).shards)

    # Looks

    async def page(self, after: str | None, limit: int, state: CrawlState | None) -> CrawlPage:
        after_id = read_cursor(after, 1)[0] if after else 0

        def read(control: ControlStore) -> tuple[list[Crawl], bool]:
            found = control.crawls(after_id, limit, state, max_bytes=PAGE_BYTES)
            if len(found) == limit or not found:
                return found, bool(found)
            return found, bool(control.crawls(found[-1].id, 1, state, max_bytes=0))

        found, has_more = await self._store.control(read)
        return CrawlPage(
            crawls=[views.summary(crawl) for crawl in found],
            next=cursor(found[-1].id) if has_more else None,
        )

    async def view(self, crawl: int) -> CrawlView:
        told = await self._store.control(lambda control: self._told(control, crawl))
        is_live = not told.crawl.state.is_final
        counters = await self._counters(crawl)
        has_waiting = is_live and counters["queued"]
        waiting = await self._put_off(crawl) if has_waiting else []
        held = await self._held(crawl, told.rules) if has_waiting else []
        now = asyncio.get_running_loop().time()
        pages_per_s = self._rates.look(crawl, counters["pages"], now) if is_live else None
        return views.view(told, counters, waiting, pages_per_s, clock.now(), held)

    async def _held(self, crawl: int, rules: Sequence[DomainRule]) -> list[HeldDomain]:
        """Those with URLs of the crawl."""
        held = views.held_domains(rules, crawl)
        if not held:
            return []

        def read(readers: ShardReaders, layout: Layout) -> list[HeldDomain]:
            return [
                replace(held[name], queued=queued)
                for _, reader in readers.each(layout)
                for name, queued in reader.waiting_in(crawl, list(held)).items()
            ]

        return await self._store.shards(read)

    async def _put_off(self, crawl: int) -> list[StoredOrigin]:
        return await self._store.shards(
            lambda readers, layout: readers.put_off_of(
                layout, crawl, clock.now(), views.MAX_PUT_OFF
            )
        )

    def _told(self, control: ControlStore, crawl: int) -> views.Told:
        layout = self._store.layout(control)
        members = control.members()
        found = control.crawl(crawl)
        return views.Told(
            crawl=found,
            patience_s=patience_s(
                found.spec,
                limited_s=self._settings.limited_patience_s,
                unlimited_s=self._settings.patience_s,
            ),
            members=len(members),
            figures=figures_of(members),
            owned_shards=sum(
                lease.is_live for lease in control.leases() if lease.shard < layout.shards
            ),
            shards=layout.shards,
            seeds_waiting=control.seeds_waiting(crawl),
            rules=[rule for rule in control.rules() if rule.crawl in (None, crawl)],
            notes=control.notes(crawl, MAX_NOTES),
            seed_file=control.files.seed_file(crawl) if found.spec.seed_file else None,
        )

    async def _counters(self, crawl: int) -> dict[str, int]:
        return await self._store.shards(
            lambda readers, layout: views.summed(readers.counters(layout, crawl))
        )

    async def urls(self, crawl: int, state: UrlState, after: str | None, limit: int) -> UrlPage:
        """Shard after shard, by id within each."""
        await self.require(crawl)
        place = read_cursor(after, 3) if after else None

        def read(readers: ShardReaders, layout: Layout) -> UrlPage:
            if place is not None and place[0] != layout.generation:
                raise not_a_cursor("the shards were arranged anew since")
            first, after_id = place[1:] if place is not None else (0, 0)
            rows: list[UrlRow] = []
            for shard, reader in readers.each(layout, first):
                since = after_id if shard == first else 0
                rows += reader.urls(crawl, state, since, limit - len(rows))
                if len(rows) == limit:
                    return _url_page(rows, cursor(layout.generation, shard, rows[-1].id))
            return _url_page(rows, None)

        return await self._store.shards(read)

    async def errors(self, crawl: int) -> ErrorList:
        await self.require(crawl)
        groups = await self._store.shards(lambda readers, layout: readers.errors(layout, crawl))
        return ErrorList(errors=views.errors(groups))

    async def shards(self) -> int:
        """How many there are."""
        return (await self._store.control(self._store.layout)).shards

    async def fetch_job(self, jid: str) -> FetchJobState | None:
        """None: it is in no shard."""
        return await self._store.shards(
            lambda readers, layout: find(readers, layout, jid, clock.now())
        )

    async def damaged_shards(self) -> list[str]:
        return await self._store.damaged_shards()

    async def look(self) -> Look:
        """At all crawls that have not ended."""
        return await self._watch.look()

    async def states(self) -> dict[CrawlState, int]:
        return await self._store.control(self._counts.count)

    # Orders

    async def change(self, crawl: int, action: CrawlAction) -> CrawlChange:
        changed = await self._store.control(
            lambda control: carry_out(control, crawl, action, clock.now())
        )
        return views.change(changed, await self._counters(crawl))

    async def set_rule(self, crawl: int | None, domain: str, order: DomainOrder) -> DomainRuleView:
        """In place of an earlier one."""
        name = domain_name(domain)
        return await self._change_rule(
            crawl, name, lambda _: order.changed_in(DomainRule(crawl, name))
        )

    async def change_rule(
        self, crawl: int | None, domain: str, order: DomainOrder
    ) -> DomainRuleView:
        """Only what the order says."""
        return await self._change_rule(crawl, domain_name(domain), order.changed_in)

    async def _change_rule(
        self, crawl: int | None, domain: str, change: Callable[[DomainRule], DomainRule]
    ) -> DomainRuleView:
        def change_it(control: ControlStore) -> DomainRule:
            if crawl is not None:
                refuse_if_ending(control.crawl(crawl))
            return control.change_rule(crawl, domain, change)

        return views.rule_view(await self._store.control(change_it))

    async def purge(self, crawl: int, domain: str) -> PurgeOrdered:
        name = domain_name(domain)

        def order(control: ControlStore) -> int:
            refuse_if_ending(control.crawl(crawl))
            shard = shard_of_domain(name, self._store.layout(control).shards)
            control.order_purge(shard, crawl, name)
            return shard

        return PurgeOrdered(domain=name, shard=await self._store.control(order))

    async def purge_for_all(self, domain: str) -> PurgeOfAllOrdered:
        name = domain_name(domain)

        def order(control: ControlStore) -> PurgeOfAllOrdered:
            shard = shard_of_domain(name, self._store.layout(control).shards)
            crawls = [crawl.id for crawl in control.live_crawls()]
            for crawl in (NO_CRAWL, *crawls):
                control.order_purge(shard, crawl, name)
            return PurgeOfAllOrdered(domain=name, shard=shard, crawls=len(crawls))

        return await self._store.control(order)

    async def domains(self, limit: int) -> DomainList:
        stored = await self._store.shards(
            lambda readers, layout: list(
                chain.from_iterable(
                    reader.waiting_domains(limit) for _, reader in readers.each(layout)
                )
            )
        )
        rules = await self._store.control(lambda control: control.rules())
        for_all = [rule for rule in rules if rule.crawl is None]
        return DomainList(
            domains=views.domains(stored, for_all, limit, clock.now()),
            rules=views.rule_views(for_all),
        )

    async def require(self, crawl: int) -> None:
        await self._store.control(lambda control: control.crawl(crawl))


async def open_crawls(settings: CrawlSettings, allow: AllowSettings) -> CrawlService | None:
    """None without CRAWL_STATE. Raises StateError."""
    if not settings.state:
        return None
    store = await open_store(settings.state, settings.shards)
    return CrawlService(store, settings, AddressRule(allow.nets))


def domain_name(text: str) -> str:
    """A registrable domain, as the state store names it. Raises Problem."""
    try:
        host = parse_host(text)
    except InvalidUrl as error:
        raise unprocessable(str(error), field="domain") from None
    domain = registrable_domain(host)
    if domain != host:
        raise unprocessable(
            f"orders are for whole registrable domains: {domain}", field="domain", domain=domain
        )
    return domain


def _url_page(rows: Sequence[UrlRow], following: str | None) -> UrlPage:
    return UrlPage(urls=list(map(views.url_view, rows)), next=following)
