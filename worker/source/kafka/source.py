"""Jobs from the topics of a Kafka: many slots on few partitions, committed in order.

A group's reader (group_reader.py, in a thread) brings the records of the partitions that are ours.
Each partition knows which of its records may run now (partition_queue.py) and how far it is
(progress.py). A record is done when its job has succeeded, or when it was written elsewhere: to a
topic in which it waits for its next run, or to the one for what is given up. So the base always
moves on, and what is new is committed several times a second.

A crash repeats what was running, and what had ended since the last answered commit: no more than
there are slots of either.

Everything here runs in the loop's thread; the reader's calls are handed over to it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import Message as KafkaMessage

from manyhands.shared.errors import ConfigError, ProtocolError
from manyhands.shared.jobs import Job, encode_job, utc_now
from manyhands.shared.logs import get_logger
from manyhands.shared.tasks import Tasks
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.message import Message
from manyhands.worker.jobs.outcomes import (
    DONE,
    Dead,
    Defer,
    Drop,
    Failed,
    Move,
    Outcome,
    PutBack,
    Retry,
)
from manyhands.worker.source.kafka.deliveries import KafkaDelivery, make_delivery
from manyhands.worker.source.kafka.failures import DUE, Failing, History, Outgoing
from manyhands.worker.source.kafka.group_reader import Assigned, GroupReader, held_of
from manyhands.worker.source.kafka.partition import Held, Partition, PartitionView, Place
from manyhands.worker.source.kafka.progress import Commit, Progress
from manyhands.worker.source.kafka.sender import NotSent, Sender
from manyhands.worker.source.kafka.side_topics import KafkaAway, prepare_topics
from manyhands.worker.source.kafka.topics import SideTopics, Topic

# Between two commits while few jobs have ended. Many are committed at once, and while as many have
# ended as there are slots, none is started: so many may run twice after a crash.
COMMIT_S = 0.2
HURRIED_SHARE = 1 / 4
# What is kept here for each slot, so that a slot that becomes free need not wait for the reader.
WAITING_PER_SLOT = 2
LEAST_WAITING = 1000
MOST_WAITING_BYTES = 64 * 1024 * 1024
WITHOUT_PARTITIONS_S = 30.0
# A job that was put back while we go on, and a record that could not be written elsewhere.
AGAIN_AFTER_S = 1.0
# Of a partition whose records all wait for their time.
MOST_ASLEEP = 100
FOREVER_S = 3600.0


@dataclass(slots=True)
class Counts:
    """Since the start."""

    assigned: int = 0
    done: int = 0
    failed: int = 0
    dead: int = 0
    commits: int = 0
    commit_errors: int = 0


class KafkaSource:
    """A `Source`. State: the partitions that are ours, those of them that have something to run,
    and the free slots."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group: Mapping[str, Any],
        topics: Mapping[str, Topic],
        side: SideTopics,
        raw_types: Mapping[str, str],
        *,
        slots: int,
        grace_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.slots = slots
        self.counts = Counts()
        self.partitions: dict[Place, Partition] = {}
        self.is_connected = False
        # What is away; empty: nothing.
        self.waits_for = ""
        self._client = client
        self._free = slots
        # Done since the last commit that was answered, of them in the commit on its way, and when
        # the last one was sent.
        self._uncommitted = 0
        self._in_commit: int | None = None
        self._committed_at = -COMMIT_S
        self._topics = topics
        self._side = side
        self._raw_types = raw_types
        self._grace_s = grace_s
        self._most_waiting = max(LEAST_WAITING, WAITING_PER_SLOT * slots)
        self._turns: deque[Partition] = deque()
        self._deliver: Callable[[Delivery], None] = _refuse_delivery
        self._is_quiet = False
        self._is_closed = asyncio.Event()
        self._fill_is_due = False
        self._tasks = Tasks("kafka")
        self._said: Counter[str] = Counter()
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._reader = GroupReader({**client, **group}, list(topics), self, grace_s=grace_s)
        self._sender = Sender(client)
        self._log = get_logger("kafka")

    # Source

    async def run(self, deliver: Callable[[Delivery], None]) -> None:
        self._deliver = deliver
        if not await self._is_prepared():
            return
        # A member of a group that has more processes than partitions may never get one.
        self.is_connected = True
        self._loop.call_later(WITHOUT_PARTITIONS_S, self._say_without_partitions)
        self._reader.start()
        committing = asyncio.create_task(self._commit_now_and_then(), name="kafka commits")
        reading = asyncio.wrap_future(self._reader.ended)
        try:
            await asyncio.wait({reading, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            await reading
        finally:
            committing.cancel()
            self._reader.end()
            self._failure.cancel()

    def slot_free(self, delivery: Delivery) -> None:
        if delivery.has_slot:
            delivery.has_slot = False
            self._free += 1
            self._fill_soon()

    def job_ended(self, delivery: Delivery) -> None:
        assert isinstance(delivery, KafkaDelivery)
        self.slot_free(delivery)
        partition = delivery.source
        partition.in_flight -= 1
        if delivery.runs_again and partition.is_ours and not self._is_quiet:
            self._loop.call_later(AGAIN_AFTER_S, self._run_again, partition, delivery.held)
        else:
            self._over(partition, delivery.held)
        if partition.asked is not None and not partition.in_flight:
            partition.asked.set()

    def settle(self, delivery: Delivery, outcome: Outcome) -> Coroutine[Any, Any, None]:
        assert isinstance(delivery, KafkaDelivery)
        return self._settle(delivery, outcome)

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """What is not committed comes again by itself."""

    async def push(self, jobs: Sequence[Job]) -> None:
        """Each to the topic that its queue names; one for later waits in a topic of the group."""
        await self._sender.send([self._outgoing(job) for job in jobs])

    async def quiet(self) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            self._reader.pause(list(self.partitions))

    async def flushed(self) -> None:
        """Leave the group: its partitions are revoked, and what is done of them is committed."""
        self.close()
        if self._reader.is_started:
            await asyncio.wrap_future(self._reader.ended)
        await self._sender.close()

    def close(self) -> None:
        self._is_closed.set()
        self._reader.end()

    # What is told of it

    @property
    def running(self) -> int:
        return self.slots - self._free

    @property
    def uncommitted(self) -> int:
        """Partitions with a commit that was not answered."""
        return sum(one.is_commit_pending for one in self.partitions.values())

    def views(self) -> list[PartitionView]:
        now_s = utc_now().timestamp()
        ends = self._reader.ends
        return [one.view(ends.get(one.place), now_s) for one in self.partitions.values()]

    # GroupEvents: called in the reader's thread.

    def assigned(self, partitions: Sequence[Assigned]) -> None:
        self._loop.call_soon_threadsafe(self._take, partitions)

    def revoking(self, places: Sequence[Place]) -> "Future[dict[Place, Commit]]":
        return asyncio.run_coroutine_threadsafe(self._give_up(places), self._loop)

    def lost(self, places: Sequence[Place]) -> None:
        self._loop.call_soon_threadsafe(self._forget, places, "lost")

    def received(self, messages: list[KafkaMessage]) -> None:
        self._loop.call_soon_threadsafe(self._receive, messages)

    def committed(self, offsets: Mapping[Place, int], error: KafkaError | None) -> None:
        self._loop.call_soon_threadsafe(self._hear_of_commit, offsets, error)

    def troubled(self, error: KafkaError) -> None:
        self._loop.call_soon_threadsafe(self._hear_of_trouble, error)

    # Partitions come and go

    def _take(self, partitions: Sequence[Assigned]) -> None:
        self.counts.assigned += len(partitions)
        for one in partitions:
            topic = self._topics[one.place.topic]
            self.partitions[one.place] = Partition(one.place, topic, one.commit)
        if partitions:
            self._log.info(
                "partitions assigned", partitions=_named(one.place for one in partitions)
            )
        if self._is_quiet:
            self._reader.pause([one.place for one in partitions])

    async def _give_up(self, places: Sequence[Place]) -> dict[Place, Commit]:
        """Start nothing more of them, give what runs a while, and say how far they are."""
        leaving = [self.partitions[place] for place in places if place in self.partitions]
        for partition in leaving:
            self._end_turn(partition)
            partition.is_ours = False
            partition.asked = asyncio.Event()
            if not partition.in_flight:
                partition.asked.set()
        try:
            async with asyncio.timeout(0 if self._is_quiet else self._grace_s):
                for partition in leaving:
                    assert partition.asked is not None
                    await partition.asked.wait()
        except TimeoutError:
            self._log.info(
                "partitions go to others while jobs of them still run: those run there again",
                jobs=sum(partition.in_flight for partition in leaving),
            )
        commits = {
            partition.place: partition.progress.commit()
            for partition in leaving
            if partition.progress is not None
        }
        self._forget(places, "revoked")
        return commits

    def _forget(self, places: Sequence[Place], how: str) -> None:
        for place in places:
            if (partition := self.partitions.pop(place, None)) is not None:
                partition.is_ours = False
                partition.progress = None
                self._end_turn(partition)
        if places:
            self._log.info(f"partitions {how}", partitions=_named(places))

    # Records come

    def _receive(self, messages: list[KafkaMessage]) -> None:
        for message in messages:
            place = Place(message.topic() or "", message.partition() or 0)
            partition = self.partitions.get(place)
            offset = message.offset()
            if partition is None or not partition.is_ours or offset is None:
                continue
            if partition.progress is not None and offset < partition.progress.next_offset:
                # The topic was made anew, or its end was cut off.
                self._log.warning("a partition begins anew", partition=_name(place), offset=offset)
                self._forget([place], "begun anew")
                self._take([Assigned(place, None)])
                partition = self.partitions[place]
            if partition.progress is None:
                partition.progress = Progress(offset)
            received = partition.progress.received(offset)
            if received is None:
                continue
            held = held_of(message, place, received)
            partition.queue.add(held)
            partition.written_ms[offset] = held.written_ms
            partition.waiting_bytes += held.size
            self._may_run(partition)
        for partition in list(self.partitions.values()):
            self._bound(partition)
        self._fill()

    def _bound(self, partition: Partition) -> None:
        """Stop reading a partition of which much waits here, until half of that is gone."""
        share = self._most_waiting // max(1, len(self.partitions)) + 1
        if self._side.delay_of(partition.place.topic) is not None:
            share = min(share, MOST_ASLEEP)
        most_bytes = MOST_WAITING_BYTES // max(1, len(self.partitions))
        waiting = max(partition.queue.waiting / share, partition.waiting_bytes / most_bytes)
        if not partition.is_paused and waiting >= 1:
            partition.is_paused = True
            self._reader.pause([partition.place])
        elif partition.is_paused and waiting <= 1 / 2 and not self._is_quiet:
            partition.is_paused = False
            self._reader.resume([partition.place])

    # Jobs start

    def _may_run(self, partition: Partition) -> None:
        if not partition.is_turn and partition.is_ours:
            partition.is_turn = True
            self._turns.append(partition)

    def _end_turn(self, partition: Partition) -> None:
        if partition.is_turn:
            partition.is_turn = False
            self._turns.remove(partition)

    def _fill_soon(self) -> None:
        if self._turns and not self._fill_is_due:
            self._fill_is_due = True
            self._loop.call_soon(self._fill)

    def _fill(self) -> None:
        """Start what may run, one of each partition in turn."""
        self._fill_is_due = False
        now_ms = None
        while self._may_start and self._turns:
            partition = self._turns[0]
            held = partition.queue.first()
            progress = partition.progress
            if held is None or progress is None:
                self._end_turn(partition)
                continue
            if not progress.may_start(held.place):
                self._end_turn(partition)
                self._say_full(partition, progress)
                continue
            delay_s = self._side.delay_of(partition.place.topic)
            if delay_s is not None:
                now_ms = now_ms or utc_now().timestamp() * 1000
                wait_s = held.written_ms / 1000 + delay_s - now_ms / 1000
                if wait_s > 0:
                    self._end_turn(partition)
                    wait_s = min(wait_s, FOREVER_S)
                    self._loop.call_later(wait_s, self._awake, partition)
                    continue
            self._turns.rotate(-1)
            self._start(partition, progress, partition.queue.take())
            if partition.is_paused:
                self._bound(partition)

    @property
    def _may_start(self) -> bool:
        return self._free > 0 and self._uncommitted < self.slots and not self._is_quiet

    def _awake(self, partition: Partition) -> None:
        self._may_run(partition)
        self._fill()

    def _start(self, partition: Partition, progress: Progress, held: Held) -> None:
        progress.started(held.place)
        partition.waiting_bytes -= held.size
        partition.in_flight += 1
        self._free -= 1
        is_later = any(name == DUE for name, _ in held.message.headers)
        if is_later and self._goes_on_waiting(partition, held):
            return
        try:
            delivery = make_delivery(held, partition, self._raw_types, self._loop.time())
        except ProtocolError as error:
            failed = Failed("UnreadableJob", str(error))
            failing = Failing(held.message, held.value, held.told, 0)
            self._say_dead(held, failed)
            self._leave(partition, held, failing.dead(failed, self._side, utc_now()))
        else:
            self._deliver(delivery)

    def _goes_on_waiting(self, partition: Partition, held: Held) -> bool:
        """What has to wait longer than one topic lets it waits in another one; what is of a topic
        that we do not take goes back there."""
        history, now = held.told, utc_now()
        failing = Failing(held.message, held.value, history, 0)
        if history.due is not None and history.due > now:
            self._leave(partition, held, failing.waiting(history, history.due, self._side, now))
            return True
        if history.topic not in self._topics:
            self._leave(partition, held, failing.home())
            return True
        return False

    def _leave(self, partition: Partition, held: Held, outgoing: Outgoing) -> None:
        self._tasks.spawn(self._write_and_end(partition, held, outgoing), name="kafka leave")

    async def _write_and_end(self, partition: Partition, held: Held, outgoing: Outgoing) -> None:
        """A record that is no job for us: done when it is where it belongs."""
        while partition.is_ours:
            try:
                await self._sender.send([outgoing])
            except NotSent as error:
                self._say_once(f"{outgoing.topic}: {error}", "a record cannot be written")
                await asyncio.sleep(AGAIN_AFTER_S)
            else:
                self._done(partition, held)
                break
        partition.in_flight -= 1
        self._free += 1
        self._over(partition, held)
        if partition.asked is not None and not partition.in_flight:
            partition.asked.set()
        self._fill()

    # Jobs end

    async def _settle(self, delivery: KafkaDelivery, outcome: Outcome) -> None:
        copies = [one for one in delivery.copies or () if isinstance(one, KafkaDelivery)]
        if outcome is not DONE and not isinstance(outcome, Drop):
            if delivery.source.progress is None:
                return  # somebody else has the partition now, and runs it again
            if not await self._is_written_elsewhere(delivery, outcome):
                delivery.runs_again = True
                for copy in copies:
                    self._loop.call_later(AGAIN_AFTER_S, self._add_again, copy)
                return
        for one in (delivery, *copies):
            self._done(one.source, one.held)

    async def _is_written_elsewhere(self, delivery: KafkaDelivery, outcome: Outcome) -> bool:
        outgoing, is_dead = self._next(delivery, outcome)
        if outgoing is None:
            return False
        try:
            await self._sender.send([outgoing])
        except NotSent as error:
            self._say_once(f"{outgoing.topic}: {error}", "a record cannot be written")
            return False
        self.counts.failed += 1
        self.counts.dead += is_dead
        return True

    def _next(self, delivery: KafkaDelivery, outcome: Outcome) -> tuple[Outgoing | None, bool]:
        """Where its record goes, and whether it is given up; None: it stays where it is."""
        now = utc_now()
        failing = delivery.failing()
        if isinstance(outcome, PutBack):
            return None, False
        if isinstance(outcome, Move):
            return failing.moved(outcome), False
        if isinstance(outcome, Dead):
            outgoing, is_dead = failing.dead(outcome, self._side, now), True
        else:
            assert isinstance(outcome, Failed | Retry | Defer)
            outgoing, is_dead = failing.again(outcome, self._side, now)
        if is_dead:
            self._say_dead(delivery.held, outcome)
        return outgoing, is_dead

    def _done(self, partition: Partition, held: Held) -> None:
        if partition.progress is not None:
            partition.progress.done(held.offset)
            del partition.written_ms[held.offset]
            self.counts.done += 1
            self._uncommitted += 1
            if self._uncommitted >= HURRIED_SHARE * self.slots:
                self._commit_what_is_new()
            if partition.is_full and partition.queue.first() is not None:
                partition.is_full = False
                self._may_run(partition)

    def _over(self, partition: Partition, held: Held) -> None:
        """It does not run any more: the next of its key may."""
        if not partition.is_ours:
            return
        partition.queue.ended(held)
        if partition.queue.first() is not None:
            self._may_run(partition)
            self._fill_soon()

    def _run_again(self, partition: Partition, held: Held) -> None:
        if partition.is_ours:
            partition.queue.put_back(held)
            self._waits_again(partition, held)

    def _add_again(self, copy: KafkaDelivery) -> None:
        """The other record of a job that is to run again: it is in nobody's hand."""
        if copy.source.is_ours:
            copy.source.queue.add(copy.held)
            self._waits_again(copy.source, copy.held)

    def _waits_again(self, partition: Partition, held: Held) -> None:
        partition.waiting_bytes += held.size
        self._may_run(partition)
        self._fill()

    # Commits

    async def _commit_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            self._commit_what_is_new()

    def _commit_what_is_new(self) -> None:
        """One at a time: what comes meanwhile goes with the next."""
        if self._in_commit is not None or not self._uncommitted:
            return
        commits: dict[Place, Commit] = {}
        for place, partition in self.partitions.items():
            if partition.progress is None or not partition.is_ours:
                continue
            commit = partition.progress.commit()
            if commit != partition.sent:
                partition.sent = commits[place] = commit
        if commits:
            self._in_commit = self._uncommitted
            self._reader.commit(commits)
        else:
            # All of it was of partitions that have gone.
            self._uncommitted = 0

    def _hear_of_commit(self, offsets: Mapping[Place, int], error: KafkaError | None) -> None:
        """Of the one on its way, or of one for partitions that have gone: then fewer are held for
        uncommitted than are, until the next."""
        self.counts.commits += 1
        if error is None:
            self._uncommitted -= self._in_commit or 0
        self._in_commit = None
        for place, offset in offsets.items():
            partition = self.partitions.get(place)
            if partition is None:
                continue
            if error is None:
                partition.committed = offset
            else:
                # Once more, with whatever is new by then.
                partition.sent = None
        if error is not None:
            self.counts.commit_errors += 1
            self._say_once(error.str(), "a commit was refused")
        elif self._uncommitted >= HURRIED_SHARE * self.slots:
            self._commit_what_is_new()
        self._fill_soon()

    async def _is_prepared(self) -> bool:
        """Wait for a broker that answers, and see that all topics are there; False if we are closed
        before."""
        taken = [name for name in self._topics if self._side.delay_of(name) is None]
        beside = [*self._side.retries, self._side.dead]
        while not self._is_closed.is_set():
            try:
                await asyncio.to_thread(prepare_topics, self._client, taken, beside)
            except KafkaAway as error:
                if not self.waits_for:
                    self._log.warning("waiting for Kafka", reason=str(error))
                self.waits_for = f"Kafka: {error}"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_closed.wait(), AGAIN_AFTER_S)
            else:
                self.waits_for = ""
                return True
        return False

    # Words

    def _hear_of_trouble(self, error: KafkaError) -> None:
        text = error.str()
        if error.code() in _POINTLESS or error.fatal():
            if not self._failure.done():
                self._failure.set_exception(ConfigError(f"WORKER_SOURCE: {text}"))
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._say_once(text, "trouble with Kafka: trying again")

    def _say_without_partitions(self) -> None:
        if not self.counts.assigned and not self._is_quiet:
            self._log.warning(
                "no partition so far: there may be more processes than partitions; brokers older "
                "than Kafka 4 need KAFKA_GROUP_PROTOCOL=classic"
            )

    def _say_full(self, partition: Partition, progress: Progress) -> None:
        if partition.is_full:
            return
        partition.is_full = True
        self._log.warning(
            "a partition stands still: too much is done behind a record that is not",
            partition=_name(partition.place),
            offset=progress.base,
            incomplete=progress.incomplete,
        )

    def _say_dead(self, held: Held, outcome: object) -> None:
        self._log.error(
            "a record is given up",
            record=held.told.origin,
            dead_letters=self._side.dead,
            reason=f"{outcome.error_type}: {outcome.message}"
            if isinstance(outcome, Failed)
            else str(outcome),
        )

    def _say_once(self, reason: str, what: str) -> None:
        self._said[reason] += 1
        if self._said[reason] == 1:
            self._log.warning(what, reason=reason)

    def _outgoing(self, job: Job) -> Outgoing:
        value, key = encode_job(job, keeps_big_integers=True), job.jid.encode()
        now = utc_now()
        if job.at is None or job.at <= now:
            return Outgoing(job.queue, key, value)
        message = Message(job.queue, 0, 0, key)
        history = History(origin=f"{job.queue}/{job.jid}", due=job.at)
        return Failing(message, value, history, 0).waiting(history, job.at, self._side, now)


# Trying again cannot help.
_POINTLESS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
    }
)


def _name(place: Place) -> str:
    return f"{place.topic}/{place.partition}"


def _named(places: Any) -> list[str]:
    return sorted(map(_name, places))


def _refuse_delivery(_delivery: Delivery) -> None:
    raise AssertionError("a record arrived before run()")
