"""The shards of this process: leases taken, kept and given back, stores opened and closed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from manyhands.shared.crawl.messages import crawl_queue
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.damage import WHAT_TO_DO, is_damaged, write_note
from manyhands.shared.crawl.store.model import LeaseLost, Member
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.sqlite.database import StateDamaged, StateError
from manyhands.shared.crawl.store.sqlite.directory import open_shard, shard_file
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.logs import Logger
from manyhands.shared.settings import CrawlSettings
from manyhands.worker.crawl.fetching.dispatcher import Dispatcher
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.hosts import OwnedShard
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.outbox import Outbox
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.leader import Leader
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.leases import (
    RENEWALS,
    LeaseGuard,
    shards_to_claim,
    shards_to_release,
)
from manyhands.worker.crawl.shards.store_thread import StoreThread
from manyhands.worker.crawl.tasks import Tasks

BALANCE_S = 1.0


@dataclass(slots=True, eq=False)
class Leasing:
    """State: `shards`, those that are open here. `opened` is called when one has come, `set_queues`
    with the queues that are read."""

    name: str
    slots: int
    settings: CrawlSettings
    directory: Path
    shards: dict[int, OwnedShard]
    lease_guard: LeaseGuard
    control: Control
    store: StoreThread
    crawls: LiveCrawls
    hosts: WorkingSet
    admission: Admission
    dispatcher: Dispatcher
    outbox: Outbox
    leader: Leader
    tasks: Tasks
    opened: Callable[[], None]
    set_queues: Callable[[Sequence[str]], None]
    log: Logger
    # How many shards the log was told of.
    said: int = -1
    # Nothing new is claimed.
    is_stopping: bool = False
    # Shards whose files are damaged.
    damaged: set[int] = field(default_factory=set)

    async def settle_layout(self, is_closing: Callable[[], bool]) -> None:
        """Wait until the shards are as many as the settings say; the leader sees to that."""
        wanted = self.settings.shards
        layout = await self.control.ask(lambda control: control.layout(wanted))
        while layout.shards != wanted and not is_closing():
            if await self.leader.leads():
                await self.leader.reshard(layout, wanted)
            else:
                await asyncio.sleep(BALANCE_S)
            layout = await self.control.ask(lambda control: control.layout(wanted))
        self.control.layout = layout
        self.admission.shards = layout.shards
        self.admission.generation = layout.generation

    async def renew(self) -> None:
        """For as long as there are leases."""
        lease_s = self.settings.lease_s
        while True:
            asked_at = self.lease_guard.now()
            epochs = dict(self.lease_guard.epochs)
            member = Member(self.name, self.slots, self.dispatcher.figures())
            try:
                kept = await self.control.ask(
                    partial(_renew, member=member, epochs=epochs, ttl_s=lease_s)
                )
            except ManyhandsError as error:
                self.log.error("leases could not be renewed", reason=str(error))
            else:
                for shard in self.lease_guard.renewed(kept, asked_at):
                    if shard in epochs:
                        self.drop(shard, "its lease ran out")
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
            self.drop(shard.number, f"{type(error).__name__}: {error}")

    def file_failed(self, number: int, error: StateError) -> None:
        if number not in self.shards:
            return
        if isinstance(error, StateDamaged):
            self.damaged.add(number)
            generation = self.control.layout.generation
            write_note(shard_file(self.directory, generation, number), str(error))
            self._tell_of_damage(number, str(error))
        self.drop(number, str(error))

    def drop(self, number: int, why: str) -> None:
        """It is not ours any more: forget what is in memory, write nothing."""
        shard = self.shards.pop(number, None)
        self.lease_guard.ended(number)
        if shard is None:
            return
        self.log.warning("a shard is given up", shard=number, reason=why)
        # To the others this process may have seemed dead.
        self.crawls.forget_allowances()
        self.hosts.forget(shard)
        self.outbox.shard_closed(number)
        self.tell_queues()
        self.tasks.spawn(self.store.close(number))

    def tell_queues(self) -> None:
        layout = self.control.layout
        names = [crawl_queue(number, layout.shards) for number in sorted(self.shards)]
        if self.leader.is_leading:
            names += self.leader.leftover_queues(layout.most_ever, layout.shards)
        self.set_queues(names)

    async def _claim_and_release(self, is_closing: Callable[[], bool]) -> None:
        layout = await self.control.ask(lambda control: control.layout(self.settings.shards))
        if layout.generation != self.control.layout.generation:
            for number in list(self.shards):
                self.drop(number, "the number of shards has changed")
            await self.settle_layout(is_closing)
        members = await self.control.ask(lambda control: control.members())
        self.crawls.members = len(members)
        leases = await self.control.ask(lambda control: control.leases())
        count = self.control.layout.shards
        excess = shards_to_release(self.name, count, members, list(self.shards))
        for shard in list(self.shards.values())[len(self.shards) - excess :]:
            await self._release(shard)
        await self._look_for_damage(count)
        wanted = shards_to_claim(self.name, count, members, leases, self.damaged)
        await asyncio.gather(*(self._claim(number) for number in wanted))
        if len(self.shards) != self.said:
            self.said = len(self.shards)
            self.log.info("owns shards", owned=len(self.shards), of=count)

    async def _look_for_damage(self, shards: int) -> None:
        """By the notes beside the files, whoever wrote them."""
        generation = self.control.layout.generation

        def noted() -> set[int]:
            files = {n: shard_file(self.directory, generation, n) for n in range(shards)}
            return {number for number, file in files.items() if is_damaged(file)}

        damaged = await self.control.in_thread(noted)
        for number in damaged - self.damaged:
            self._tell_of_damage(number, "another process found it")
        for number in self.damaged - damaged:
            self.log.info("a shard has another file: trying it", shard=number)
        self.damaged = damaged

    def _tell_of_damage(self, number: int, reason: str) -> None:
        self.log.error(
            "a shard is damaged: its crawls wait",
            shard=number,
            file=str(shard_file(self.directory, self.control.layout.generation, number)),
            reason=reason,
            what_to_do=WHAT_TO_DO,
        )

    async def _claim(self, number: int) -> None:
        lease_s = self.settings.lease_s
        asked_at = self.lease_guard.now()
        epoch = await self.control.ask(
            lambda control: control.claim_lease(number, self.name, lease_s)
        )
        if epoch is None:
            return
        self.lease_guard.granted(number, epoch, asked_at)
        generation = self.control.layout.generation
        make = partial(open_shard, self.directory, generation, number, epoch, clock.now())
        try:
            await self.store.open(number, make)
        except ManyhandsError as error:
            if isinstance(error, StateDamaged):
                self.damaged.add(number)
                self._tell_of_damage(number, str(error))
            else:
                # A later owner has it, or an earlier one hangs in the middle of a transaction.
                self.log.warning("a shard could not be taken over", shard=number, reason=str(error))
            self.lease_guard.ended(number)
            await self.control.ask(lambda control: control.release_lease(number, epoch))
            return
        shard = OwnedShard(number, epoch)
        self.shards[number] = shard
        self.hosts.shard_opened(shard)
        self.outbox.shard_opened(number)
        self.opened()
        self.tell_queues()

    async def _release(self, shard: OwnedShard) -> None:
        try:
            await self.hosts.leave(shard)
        except LeaseLost:
            self.drop(shard.number, "its lease ran out")
            return
        if self.shards.pop(shard.number, None) is None:
            return
        self.outbox.shard_closed(shard.number)
        self.lease_guard.ended(shard.number)
        self.tell_queues()
        await self.store.close(shard.number)
        await self.control.ask(lambda control: control.release_lease(shard.number, shard.epoch))


def _renew(control: ControlStore, member: Member, epochs: dict[int, int], ttl_s: float) -> set[int]:
    control.join(member, ttl_s)
    return control.renew_leases(member.name, epochs, ttl_s)
