"""Which record of a partition may run next, against a model of what order means."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.source.kafka.partition_queue import PartitionQueue
from manyhands.worker.source.kafka.topics import Order

KEYS = st.sampled_from([None, b"a", b"b"])


@dataclass(frozen=True, slots=True)
class Numbered:
    number: int
    key: bytes | None

    @property
    def offset(self) -> int:
        return self.number


def lane(order: Order, record: Numbered) -> bytes | None:
    return {Order.KEY: record.key, Order.PARTITION: b"all", Order.NONE: None}[order]


@given(st.sampled_from(Order), st.lists(KEYS, max_size=30), st.data())
def test_of_one_lane_one_runs_at_a_time_and_in_order(order, keys, data):
    queue: PartitionQueue[Numbered] = PartitionQueue(order)
    coming = [Numbered(number, key) for number, key in enumerate(keys)]
    running: list[Numbered] = []
    begun: list[Numbered] = []
    while coming or running or queue.waiting:
        choices = ["add"] * bool(coming) + ["take"] * bool(queue.first()) + ["end"] * bool(running)
        match data.draw(st.sampled_from(choices)):
            case "add":
                queue.add(coming.pop(0))
            case "take":
                record = queue.take()
                mine = lane(order, record)
                assert mine is None or mine not in [lane(order, one) for one in running]
                running.append(record)
                begun.append(record)
            case _:
                record = running.pop(data.draw(st.integers(0, len(running) - 1)))
                queue.ended(record)
        waiting = len(keys) - len(coming) - len(begun)
        assert queue.waiting == waiting
    assert len(begun) == len(keys)
    for mine in {lane(order, record) for record in begun} - {None}:
        numbers = [record.number for record in begun if lane(order, record) == mine]
        assert numbers == sorted(numbers)


def test_what_is_put_back_runs_before_the_others_of_its_key():
    queue: PartitionQueue[Numbered] = PartitionQueue(Order.KEY)
    for number, key in enumerate([b"a", b"a", b"b"]):
        queue.add(Numbered(number, key))
    first = queue.take()
    queue.put_back(first)
    assert queue.take() is first
    assert queue.take().key == b"b"
    assert queue.first() is None
    queue.ended(first)
    assert queue.take().number == 1


def test_the_oldest_is_next_however_long_it_had_to_wait_for_its_key():
    """Else a key with many records would go far ahead of the others, and nothing could be
    committed behind it."""
    queue: PartitionQueue[Numbered] = PartitionQueue(Order.KEY)
    for number, key in enumerate([b"a", b"b", b"a", b"a", b"c"]):
        queue.add(Numbered(number, key))
    begun = []
    while queue.first() is not None:
        record = queue.take()
        begun.append(record.number)
        queue.ended(record)
    assert begun == [0, 1, 2, 3, 4]
