"""Batches of links from shard to shard, and the robots files."""

from manyhands.shared.crawl.store.model import Outgoing, StoredRobots
from manyhands.shared.crawl.store.protocol import ShardStore
from tests.contract.state.helpers import CRAWL, NOW, SITE


def send(shard: ShardStore, *targets: int) -> None:
    with shard.transaction():
        shard.send(CRAWL, [(target, b"[%d]" % target) for target in targets])


def test_batches_are_numbered_for_each_target(shard):
    with shard.transaction():
        shard.send(CRAWL, [(5, b"first"), (2, b"other"), (5, b"second")])
        shard.send(CRAWL, [(5, b"third")])
    send(shard, 2)
    assert shard.outgoing({}, 10) == [
        Outgoing(2, 1, CRAWL, b"other"),
        Outgoing(2, 2, CRAWL, b"[2]"),
        Outgoing(5, 1, CRAWL, b"first"),
        Outgoing(5, 2, CRAWL, b"second"),
        Outgoing(5, 3, CRAWL, b"third"),
    ]
    assert shard.counters(CRAWL)["outgoing"] == 5


def test_what_was_sent_already_is_not_given_again(shard):
    send(shard, 0, 0, 0, 7, 7)
    found = shard.outgoing({0: 2, 7: 1}, 10)
    assert [(one.target, one.sequence) for one in found] == [(0, 3), (7, 2)]
    assert len(shard.outgoing({}, 4)) == 4
    assert shard.outgoing({0: 3, 7: 2}, 10) == []


def test_what_was_delivered_is_forgotten_and_its_numbers_are_not_used_again(shard):
    send(shard, 0, 0, 0, 7)
    with shard.transaction():
        shard.delivered({0: 2})
        shard.delivered({0: 2, 3: 1})
    assert [(one.target, one.sequence) for one in shard.outgoing({}, 10)] == [(0, 3), (7, 1)]
    assert shard.counters(CRAWL)["outgoing"] == 2
    with shard.transaction():
        shard.delivered({0: 3, 7: 1})
    assert shard.counters(CRAWL)["outgoing"] == 0
    send(shard, 0)
    assert [one.sequence for one in shard.outgoing({}, 10)] == [4]


def test_a_batch_is_received_once_in_whatever_order(shard):
    assert shard.received_from(4) == 0
    with shard.transaction():
        # Number 3 is still on its way.
        assert shard.receive([(4, number) for number in (2, 2, 4)]) == [0, 2]
        assert shard.received_from(4) == 0
        assert shard.receive([(4, number) for number in (1, 1, 2, 4)]) == [0]
    assert shard.received_from(4) == 2
    with shard.transaction():
        assert shard.receive([(4, 3), (9, 1), (4, 3), (4, 1), (9, 3)]) == [0, 1, 4]
        assert shard.receive([(4, 3), (9, 1), (9, 3)]) == []
        assert shard.receive([]) == []
    assert (shard.received_from(4), shard.received_from(9)) == (4, 1)


def test_what_was_received_in_a_transaction_that_failed_can_come_again(shard):
    try:
        with shard.transaction():
            assert shard.receive([(4, 1)]) == [0]
            raise KeyError
    except KeyError:
        pass
    with shard.transaction():
        assert shard.receive([(4, 1)]) == [0]


def keep(
    shard: ShardStore, origin: str, body: bytes, fetched_at: float, expires_at: float
) -> StoredRobots:
    robots = StoredRobots("rules", body, fetched_at, expires_at)
    with shard.transaction():
        shard.keep_robots(origin, robots)
    return robots


def kept_of(shard: ShardStore, origin: str) -> StoredRobots | None:
    return shard.robots([origin]).get(origin)


def test_robots_are_kept_and_replaced(shard):
    assert kept_of(shard, SITE) is None
    keep(shard, SITE, b"old", NOW, NOW + 60)
    new = keep(shard, SITE, b"new", NOW + 1, NOW + 90)
    assert kept_of(shard, SITE) == new


def test_robots_of_many_hosts_are_asked_for_together(shard):
    kept = {
        name: keep(shard, name, b"", NOW, NOW + 60) for name in ("http://a.com", "http://b.com")
    }
    assert shard.robots([*kept, "http://c.com"]) == kept
    assert shard.robots([]) == {}


def test_expired_robots_are_forgotten(shard):
    keep(shard, "http://a.com", b"", NOW, NOW + 60)
    keep(shard, "http://b.com", b"", NOW, NOW + 61)
    with shard.transaction():
        shard.forget_robots(NOW + 61, 1_000_000)
    assert kept_of(shard, "http://a.com") is None
    assert kept_of(shard, "http://b.com") is not None


def test_the_oldest_robots_are_forgotten_when_all_take_too_much_room(shard):
    for age in range(10):
        keep(shard, f"http://h{age}.com", b"x" * 10_000, NOW - age, NOW + 60)
    with shard.transaction():
        shard.forget_robots(NOW, 35_000)
    kept = [age for age in range(10) if kept_of(shard, f"http://h{age}.com")]
    assert kept == [0, 1, 2]


def test_robots_without_a_body_take_room_as_well(shard):
    for number in range(100):
        keep(shard, f"http://h{number}.com", b"", NOW, NOW + 60)
    with shard.transaction():
        shard.forget_robots(NOW, 500)
    assert sum(kept_of(shard, f"http://h{number}.com") is not None for number in range(100)) < 100
