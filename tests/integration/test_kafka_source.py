"""A worker that takes its jobs from a real Kafka: what becomes of them, and of their records."""

import json
from collections import Counter
from collections.abc import Callable

import pytest

from manyhands.worker.source.kafka.done_map import decode
from tests.conftest import StartWorker
from tests.support.handlers import RAW_TOPIC_VARIABLE
from tests.support.kafka_jobs import KafkaJobs, job
from tests.support.ledger import Ledger
from tests.support.shared_server import SharedServer
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

# Nobody listens there: a worker with Kafka has no use for a Faktory.
NO_FAKTORY = "tcp://127.0.0.1:1"
Start = Callable[..., WorkerUnderTest]


@pytest.fixture
def kafka(kafka_server: SharedServer) -> KafkaJobs:
    return KafkaJobs(kafka_server.address)


@pytest.fixture
def start(start_worker: StartWorker, kafka: KafkaJobs) -> Start:
    def start(**env: str) -> WorkerUnderTest:
        settings = {
            "WORKER_SOURCE": kafka.url,
            "WORKER_TOPICS": kafka.topic,
            "KAFKA_RETRY_DELAYS_S": "1,3",
        }
        return start_worker(NO_FAKTORY, **(settings | env))

    return start


async def test_every_record_is_run_once_and_committed(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    kafka.push("ledger", *([n] for n in range(500)))
    worker = start(WORKER_CONCURRENCY="50")
    await eventually(lambda: len(ledger.lines) >= 500)
    await eventually(lambda: kafka.lag() == 0)
    worker.terminate()
    assert await worker.ended() == 0
    assert Counter(ledger.notes) == Counter(map(str, range(500)))


async def test_after_a_clean_stop_nothing_runs_twice_however_it_ended(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    """The first of each partition is still running when all others have ended."""
    kafka.write((bytes([n]), job("sleepy", [60])) for n in range(8))
    kafka.push("ledger", *([n] for n in range(300)))
    worker = start(WORKER_CONCURRENCY="100", WORKER_SHUTDOWN_TIMEOUT="8")
    await eventually(lambda: len(ledger.lines) >= 308)
    worker.terminate()
    assert await worker.ended() == 0
    maps = [decode(metadata) for _, metadata in kafka.committed().values()]
    assert sum(len(found.open_) for found in maps if found is not None) <= 8
    again = start(WORKER_CONCURRENCY="100")
    await eventually(lambda: ledger.notes.count("started") == 16)
    assert Counter(note for note in ledger.notes if note != "started") == Counter(
        map(str, range(300))
    )
    again.clean_up()


async def test_what_fails_is_tried_again_and_given_up_with_its_cause(
    kafka: KafkaJobs, start: Start
) -> None:
    kafka.write([(b"k", job("fails", ["no luck"], retry=2))], headers={"trace": b"t1"})
    start()
    await eventually(lambda: kafka.dead_records())
    (dead,) = kafka.read(kafka.dead_topic)
    assert dead.key == b"k"
    assert json.loads(dead.value or b"")["args"] == ["no luck"]
    assert dead.headers["trace"] == b"t1"
    assert dead.headers["mh-failures"] == b"3"
    assert dead.headers["mh-error"] == b"Broken: no luck"
    assert (dead.headers["mh-origin"] or b"").startswith(f"{kafka.topic}/".encode())
    await eventually(lambda: kafka.lag() == kafka.lag(kafka.retry_topic(3)) == 0)


async def test_retry_and_defer_come_back_in_time_and_dead_does_not(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    kafka.push("retries", [1.5])
    kafka.push("defers", [4.5])
    kafka.push("dies", ["for good"])
    start()
    await eventually(lambda: len(ledger.lines) >= 4 and kafka.dead_records())
    runs = Counter(entry.id for entry in ledger.entries)
    assert sorted(runs.values())[-2:] == [2, 2]
    (dead,) = kafka.read(kafka.dead_topic)
    assert dead.headers["mh-error"] == b"Dead: for good"


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"{not json", b"UnreadableJob: no job: not JSON"),
        (b"[1]", b"UnreadableJob: no job: not a JSON object"),
        (b'{"jobtype": "ledger"}', b"UnreadableJob: no job: args missing"),
        (b'{"jobtype": 7, "args": []}', b"UnreadableJob: no job: jobtype must be a string"),
        (None, b"UnreadableJob: no job: the record has no value"),
        (job("nobody", [], retry=0), b"UnknownJobType: no handler for 'nobody' here"),
        (job("ledger", ["x"], retry=0), b"BadArguments: ledger: n: "),
    ],
)
async def test_a_record_that_is_no_job_is_given_up_and_the_partition_goes_on(
    kafka: KafkaJobs, start: Start, ledger: Ledger, value: bytes | None, cause: bytes
) -> None:
    kafka.write([(b"k", value), (b"k", job("ledger", [1]))])
    start()
    await eventually(lambda: ledger.notes == ["1"] and kafka.dead_records())
    (dead,) = kafka.read(kafka.dead_topic)
    assert dead.value == value
    assert (dead.headers["mh-error"] or b"").startswith(cause)
    await eventually(lambda: kafka.lag() == 0)


async def test_children_are_in_their_topic_before_the_parent_is_done(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    kafka.push("parent", [kafka.topic])
    start()
    await eventually(lambda: len(ledger.lines) >= 3)
    await eventually(lambda: kafka.lag() == 0)
    assert sorted(ledger.notes) == ["0", "1", "2"]


async def test_records_of_one_key_run_one_at_a_time_and_in_order(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    keys = [b"a", b"b", b"c"]
    kafka.write((keys[n % 3], job("spell", [keys[n % 3].decode(), n])) for n in range(60))
    start(WORKER_CONCURRENCY="30")
    await eventually(lambda: len(ledger.lines) >= 120)
    for key in "abc":
        notes = [note.split() for note in ledger.notes if note.startswith(key)]
        numbers = [int(number) for _, _, number in notes]
        assert [what for _, what, _ in notes] == ["started", "ended"] * 20
        assert numbers == sorted(numbers)


async def test_a_handler_with_a_topic_gets_the_values_as_they_are(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    kafka.make_topic(topic := f"{kafka.topic}-raw", 2)
    kafka.write([(b"key", b"\x00\xffraw")], topic=topic, headers={"h": b"v"})
    start(WORKER_TOPICS="", **{RAW_TOPIC_VARIABLE: topic})
    await eventually(lambda: len(ledger.lines) == 1)
    assert ledger.notes == [f"00ff726177 key v {topic}"]


async def test_two_workers_share_the_partitions_and_a_third_takes_over(
    kafka: KafkaJobs, start: Start, ledger: Ledger
) -> None:
    first, second = start(WORKER_CONCURRENCY="5"), start(WORKER_CONCURRENCY="5")
    await first.logs("partitions assigned")
    await second.logs("partitions assigned")
    kafka.push("ledger", *([n] for n in range(1000)))
    await eventually(lambda: len(ledger.lines) >= 200)
    first.clean_up()
    start(WORKER_CONCURRENCY="5")
    await eventually(lambda: kafka.lag() == 0, within_s=120)
    counted = Counter(ledger.notes)
    assert set(counted) == set(map(str, range(1000)))
    assert sum(counted.values()) - len(counted) <= 5 + 1000
    second.terminate()
    assert await second.ended() == 0


async def test_a_worker_without_a_broker_waits_and_says_so_once(start_worker: StartWorker) -> None:
    worker = start_worker(
        NO_FAKTORY, WORKER_SOURCE="kafka://127.0.0.1:1?group=g", WORKER_TOPICS="t"
    )
    await worker.logs("waiting for Kafka")
    worker.terminate()
    assert await worker.ended() == 0
    assert worker.events().count("waiting for Kafka") == 1


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({"WORKER_TOPICS": "nowhere"}, "WORKER_TOPICS: there is no topic nowhere at "),
        ({"WORKER_TOPICS": "a,a"}, "WORKER_TOPICS names a twice"),
        ({"WORKER_TOPICS": "a:sideways"}, "'a:sideways' is not TOPIC:ORDER"),
        ({"WORKER_TOPICS": ""}, "WORKER_TOPICS names no topic, and no handler declares one"),
        ({"WORKER_SOURCE": "kafka://127.0.0.1:9092"}, "WORKER_SOURCE names no group"),
        ({"WORKER_SOURCE": "http://127.0.0.1"}, "WORKER_SOURCE: not a Kafka URL"),
        ({"WORKER_QUEUES": "a"}, "use neither WORKER_STAGES nor WORKER_QUEUES"),
        ({"KAFKA_RETRY_DELAYS_S": "5,5"}, "KAFKA_RETRY_DELAYS_S must be whole seconds"),
    ],
)
async def test_settings_that_cannot_be_right_end_in_one_line(
    start: Start, env: dict[str, str], line: str
) -> None:
    worker = start(**env)
    assert await worker.ended() == 1
    (said,) = worker.said
    assert line in said
