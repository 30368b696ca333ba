"""Jobs from a real Kafka through kills of workers and of the broker, rebalances and stops: the
ledger has every job, few ran twice, and the records of a key kept their order."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from devservers import KafkaServer
from tests.acceptance.scale import FAULT_ROUNDS, KAFKA_JOBS
from tests.conftest import StartWorker
from tests.support.kafka_jobs import KafkaJobs, job
from tests.support.ledger import Ledger, LedgerTail
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

SLOTS = 50
PARTITIONS = 6
KEYS = 100
WORKERS = 2
RECOVERY_S = 120.0


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[KafkaServer]:
    """One that may be killed."""
    with KafkaServer() as server:
        yield server


class Fleet:
    """Workers of one group. State: those that were started and not killed."""

    def __init__(self, start_worker: StartWorker, kafka: KafkaJobs) -> None:
        self._start_worker = start_worker
        self._kafka = kafka
        self.workers: list[WorkerUnderTest] = []

    def start(self) -> WorkerUnderTest:
        worker = self._start_worker(
            "tcp://127.0.0.1:1",
            WORKER_SOURCE=self._kafka.url,
            WORKER_TOPICS=self._kafka.topic,
            WORKER_CONCURRENCY=str(SLOTS),
        )
        self.workers.append(worker)
        return worker

    def kill_one(self) -> None:
        self.workers.pop(0).clean_up()


async def test_no_record_is_lost_and_none_out_of_order_whatever_is_killed(
    own_kafka: KafkaServer,
    start_worker: StartWorker,
    ledger: Ledger,
    record_property: Callable[[str, object], None],
) -> None:
    kafka = KafkaJobs(own_kafka.address, PARTITIONS)
    chance = random.Random(KAFKA_JOBS)
    keys = [b"%d" % (number % KEYS) for number in range(KAFKA_JOBS)]
    kafka.write((key, job("spell", [key.decode(), n])) for n, key in enumerate(keys))
    fleet = Fleet(start_worker, kafka)
    for _ in range(WORKERS):
        fleet.start()
    seen = LedgerTail(ledger.path)
    kills = 0
    for round_number in range(1, FAULT_ROUNDS + 1):
        wanted = 2 * KAFKA_JOBS * round_number // (FAULT_ROUNDS + 1)
        await eventually(partial(has_seen, seen, wanted), RECOVERY_S)
        match round_number % 4:
            case 1:
                # Leaves what it ran to nobody, until Kafka notices.
                fleet.kill_one()
                fleet.start()
                kills += 1
            case 2:
                own_kafka.kill()
                await asyncio.sleep(chance.random())
                own_kafka.start()
            case 3:
                # Its partitions go to others while it ends what it runs.
                leaving = fleet.workers.pop(0)
                leaving.terminate()
                fleet.start()
                assert await leaving.ended(RECOVERY_S) == 0
            case _:
                fleet.start()
    await eventually(lambda: len(set(notes(seen, "ended"))) >= KAFKA_JOBS, RECOVERY_S)
    await eventually(lambda: kafka.lag() == 0, RECOVERY_S)
    for worker in fleet.workers:
        await worker.logs("partitions assigned")
        worker.terminate()
    for worker in fleet.workers:
        assert await worker.ended(RECOVERY_S) == 0
    runs = Counter(notes(seen, "ended"))
    assert set(runs) == {f"{key.decode()} ended {n}" for n, key in enumerate(keys)}
    twice = sum(runs.values()) - len(runs)
    # What had ended, and was not committed: at most as many as there are slots.
    assert twice <= SLOTS * kills
    record_property("jobs", KAFKA_JOBS)
    record_property("ran twice", twice)
    record_property("workers killed", kills)
    check_order(seen)


def has_seen(seen: LedgerTail, entries: int) -> bool:
    return len(seen.read()) >= entries


def notes(seen: LedgerTail, what: str) -> list[str]:
    return [entry.note for entry in seen.read() if f" {what} " in entry.note]


def check_order(seen: LedgerTail) -> None:
    """Of each key: what runs for the first time comes in order, one at a time."""
    first_starts: dict[str, list[int]] = defaultdict(list)
    for entry in seen.read():
        key, what, number = entry.note.split()
        if what == "started" and int(number) not in first_starts[key]:
            first_starts[key].append(int(number))
    assert all(numbers == sorted(numbers) for numbers in first_starts.values())
