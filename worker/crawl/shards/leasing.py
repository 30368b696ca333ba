"""The shards of this process: takes, renews and returns leases, opens and closes stores."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.absence import were_here_for
from manyhands.shared.crawl.store.errors import StateAway, StateDamaged, StateError
from manyhands.shared.crawl.store.model import Fetches, Layout, LeaseLost, Member
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import CrawlSettings
from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.announcement import Announcement
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.leases import (
    RENEWALS,
    LeaseGuard,
    shards_to_claim,
    shards_to_release,
)
from manyhands.worker.crawl.shards.open_requests import OpenRequests
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads

BALANCE_S = 1.0


class Resharding(Protocol):
    """The leader changes the number of shards."""

    async def leads(self) -> bool: ...

    async def reshard(self, layout: Layout, wanted: int) -> None: ...


class Leasing:
    """State: `shards`, the open ones; those with damaged files; the last epoch of each that was
    given up; what moved; whether new ones are claimed; the number of members; and the last number
    of shards logged. `longest_fetch_s` is how long a request of this process can last.

    Announces what happens to shards. `opened`: a new one. `lost`: one was taken from us, perhaps
    because this process seemed dead to the others. `closed`: one is gone, for whatever reason;
    listeners forget what they keep of it. `changed`: after any of these. `laid_out`: the number of
    shards is known, or has changed."""

    def __init__(
        self,
        name: str,
        slots: int,
        settings: CrawlSettings,
        longest_fetch_s: float,
        *,
        control: Control,
        store: StoreThreads,
        resharding: Resharding,
        tasks: Tasks,
    ) -> None:
        self.name = name
        self._slots = slots
        self._settings = settings
        self._longest_fetch_s = longest_fetch_s
        self._control = control
        self._store = store
        self._resharding = resharding
        self._tasks = tasks
        self._log = get_logger("crawl").bind(member=name)
        self._said = -1
        self.lease_guard = LeaseGuard(settings.lease_s)
        self.requests = OpenRequests(self.lease_guard)
        self.shards: dict[int, OwnedShard] = {}
        self._given_up: dict[int, int] = {}
        # Shards that came and went, by how.
        self.moves = Counter({"claimed": 0, "taken over": 0, "given back": 0, "given up": 0})
        self.damaged: set[int] = set()
        self.members = 1
        self.is_stopping = False
        self.opened: Announcement[[OwnedShard]] = Announcement()
        self.lost: Announcement[[]] = Announcement()
        self.closed: Announcement[[OwnedShard]] = Announcement()
        self.changed: Announcement[[]] = Announcement()
        self.laid_out: Announcement[[Layout]] = Announcement()
        self._leaves: list[Callable[[OwnedShard], Awaitable[None]]] = []
        store.failed.tell(self._file_failed)

    def before_leaving(self, leave: Callable[[OwnedShard], Awaitable[None]]) -> None:
        """Awaited before a shard is given back; may raise LeaseLost."""
        self._leaves.append(leave)

    async def settle_layout(self, is_closing: Callable[[], bool]) -> None:
        """Wait until there are as many shards as the settings say; the leader changes the number.
        Where nobody can, there are as many as there are."""
        wanted = self._settings.shards
        layout = await self._control.ask(self._layout)
        if layout.shards != wanted and not self._control.store.can_reshard:
            self._log.warning(
                "the crawls' state has another number of shards than CRAWL_SHARDS says, and keeps "
                "it; `manyhands state copy` brings the crawls to a state with another one",
                shards=layout.shards,
                CRAWL_SHARDS=wanted,
            )
        while layout.shards != wanted and self._control.store.can_reshard and not is_closing():
            if await self._resharding.leads():
                await self._resharding.reshard(layout, wanted)
            else:
                await asyncio.sleep(BALANCE_S)
            layout = await self._control.ask(self._layout)
        self._control.layout = layout
        self.laid_out(layout)

    def _layout(self, control: ControlStore) -> Layout:
        may_change = self._control.store.can_reshard
        return control.layout(self._settings.shards, may_change=may_change)

    async def renew(self, figures: Callable[[], dict[str, int]]) -> None:
        """As long as there are leases. `figures` is what this member reports to the others."""
        lease_s = self._settings.lease_s
        while True:
            asked_at = self.lease_guard.now()
            epochs = dict(self.lease_guard.epochs)
            member = Member(self.name, self._slots, figures())
            try:
                kept = await self._control.ask_once(
                    partial(_renew, member=member, epochs=epochs, ttl_s=lease_s)
                )
            except StateAway:
                # `store_watch` says so. Nobody can take them meanwhile.
                pass
            except ManyhandsError as error:
                self._log.error("leases could not be renewed", reason=str(error))
            else:
                lost = self.lease_guard.renewed(kept, asked_at)
                self.requests.leases_changed()
                for shard in lost:
                    if shard in epochs:
                        self._drop(shard, "its lease ran out")
            await asyncio.sleep(lease_s / RENEWALS)

    async def balance(self, is_closing: Callable[[], bool]) -> None:
        # So that processes that start together know of each other first.
        await asyncio.sleep(BALANCE_S / 2)
        while True:
            if not self.is_stopping:
                await self._claim_and_release(is_closing)
            await asyncio.sleep(BALANCE_S)

    async def release_all(self) -> None:
        for shard in list(self.shards.values()):
            await self._release(shard)

    def store_failed(self, shard: OwnedShard, error: Exception) -> None:
        if self.shards.get(shard.number) is shard:
            self._drop(shard.number, f"{type(error).__name__}: {error}")

    def _file_failed(self, number: int, error: StateError) -> None:
        if number not in self.shards:
            return
        if isinstance(error, StateDamaged):
            self.damaged.add(number)
            generation = self._control.layout.generation
            self._control.store.note_damage(generation, number, str(error))
            self._tell_of_damage(number, str(error))
        self._drop(number, str(error))

    def _drop(self, number: int, why: str) -> None:
        """It is no longer ours: end its requests, forget what is in memory, write nothing."""
        shard = self.shards.pop(number, None)
        self.lease_guard.ended(number)
        if shard is None:
            return
        self.requests.end(shard)
        self.moves["given up"] += 1
        self._given_up[number] = shard.epoch
        self._log.warning("shard given up", shard=number, reason=why)
        self.lost()
        self.closed(shard)
        self.changed()
        self._tasks.spawn(self._store.close(number))

    async def _claim_and_release(self, is_closing: Callable[[], bool]) -> None:
        layout = await self._control.ask(self._layout)
        if layout.generation != self._control.layout.generation:
            for number in list(self.shards):
                self._drop(number, "the number of shards has changed")
            await self.settle_layout(is_closing)
        members = await self._control.ask(lambda control: control.members())
        self.members = len(members)
        leases = await self._control.ask(lambda control: control.leases())
        if not were_here_for(
            self._control.store.absences, self._settings.lease_s, self.lease_guard.now()
        ):
            # Leases and members have run out because nobody could renew them.
            return
        if self.name not in {member.name for member in members}:
            # This process was held up for long. Its share is known when it has reported again.
            return
        count = self._control.layout.shards
        excess = shards_to_release(self.name, count, members, list(self.shards))
        for shard in list(self.shards.values())[len(self.shards) - excess :]:
            await self._release(shard)
        await self._look_for_damage(count)
        wanted = shards_to_claim(self.name, count, members, leases, self.damaged)
        # Those that are open here are renewed, late as they may be.
        free = [number for number in wanted if number not in self.shards]
        ran_out = {lease.shard for lease in leases if not lease.is_live and not lease.is_given_back}
        await asyncio.gather(*(self._claim(number, number in ran_out) for number in free))
        if len(self.shards) != self._said:
            self._said = len(self.shards)
            self._log.info("owns shards", owned=len(self.shards), of=count)

    async def _look_for_damage(self, shards: int) -> None:
        """Whoever found it."""
        generation = self._control.layout.generation
        store = self._control.store
        damaged = await self._control.in_thread(lambda: store.damaged(generation, shards))
        for number in damaged - self.damaged:
            self._tell_of_damage(number, "another process found it")
        for number in self.damaged - damaged:
            self._log.info("the file of a damaged shard was replaced: trying it", shard=number)
        self.damaged = damaged

    def _tell_of_damage(self, number: int, reason: str) -> None:
        self._log.error(
            "a shard is damaged: its crawls wait",
            shard=number,
            file=self._control.store.name_of(self._control.layout.generation, number),
            reason=reason,
            what_to_do=self._control.store.what_to_do,
        )

    async def _claim(self, number: int, is_takeover: bool) -> None:
        """`is_takeover`: its last owner did not give it back."""
        lease_s = self._settings.lease_s
        asked_at = self.lease_guard.now()
        epoch = await self._control.ask(
            lambda control: control.claim_lease(number, self.name, lease_s)
        )
        if epoch is None:
            return
        self.lease_guard.granted(number, epoch, asked_at)
        self.requests.leases_changed()
        generation = self._control.layout.generation
        open_shard = self._control.store.open_shard
        # What was given up here has no request open any more.
        fetches = Fetches(self._longest_fetch_s, self._given_up.get(number, 0))
        make = partial(open_shard, generation, number, epoch, clock.now(), fetches)
        try:
            await self._store.open(number, make)
        except ManyhandsError as error:
            if isinstance(error, StateDamaged):
                self.damaged.add(number)
                self._tell_of_damage(number, str(error))
            elif not isinstance(error, StateAway):
                # A later owner has it, or an earlier one hangs in a transaction.
                self._log.warning(
                    "a shard could not be taken over", shard=number, reason=str(error)
                )
            self.lease_guard.ended(number)
            await self._give_back(number, epoch)
            return
        shard = OwnedShard(number, epoch)
        self.shards[number] = shard
        self.moves["taken over" if is_takeover else "claimed"] += 1
        self.opened(shard)
        self.changed()

    async def _release(self, shard: OwnedShard) -> None:
        try:
            for leave in self._leaves:
                await leave(shard)
        except LeaseLost:
            self._drop(shard.number, "its lease ran out")
            return
        if self.shards.pop(shard.number, None) is None:
            return
        self.moves["given back"] += 1
        self.lease_guard.ended(shard.number)
        self.closed(shard)
        self.changed()
        await self._store.close(shard.number)
        await self._give_back(shard.number, shard.epoch)

    async def _give_back(self, number: int, epoch: int) -> None:
        with contextlib.suppress(StateAway):
            # It runs out by itself.
            await self._control.ask_once(lambda control: control.release_lease(number, epoch))


def _renew(control: ControlStore, member: Member, epochs: dict[int, int], ttl_s: float) -> set[int]:
    control.join(member, ttl_s)
    return control.renew_leases(member.name, epochs, ttl_s)
