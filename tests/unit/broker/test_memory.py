"""The budget of memory: what is left, what a head may have, and who gives up."""

from manyhands.broker.holders import COUNTED_BYTES, STALLED_LOOKS, Holders
from manyhands.broker.memory import JOB_BYTES, MIB, QUEUE_BYTES, Memory, held_limit

LIMIT = 64 * MIB


class Client:
    """A connection that holds what a test says."""

    def __init__(self, held: int = 0, unread: int = 0) -> None:
        self.held = held
        self.unread = unread
        self.is_closed = False

    def held_bytes(self) -> int:
        return 0 if self.is_closed else self.held + self.unread

    def unread_bytes(self) -> int:
        return self.unread

    def give_up(self) -> None:
        self.is_closed = True


def counted(memory: Memory, *clients: Client) -> Holders:
    holders = Holders(memory)
    for client in clients:
        holders.count(client)
    return holders


def test_a_process_of_512_mib_has_room_for_the_longest_line_of_64():
    assert held_limit(512 * MIB, 64 * MIB) >= 64 * MIB


def test_all_that_is_held_is_taken_off_the_room():
    memory = Memory(LIMIT)
    memory.connections, memory.heads, memory.unwritten = 1000, 2000, 3000
    memory.queues, memory.in_hand = 10, 20
    assert memory.room == LIMIT - 6000 - 10 * QUEUE_BYTES - 20 * JOB_BYTES


def test_heads_grow_less_and_less_and_never_above_their_share():
    memory = Memory(LIMIT)
    rooms = []
    for _ in range(1000):
        rooms.append(memory.head_room)
        memory.heads += memory.head_room
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[0] == LIMIT // 16
    assert memory.heads <= LIMIT // 4


def test_heads_have_no_room_when_others_have_it_all():
    memory = Memory(LIMIT)
    memory.connections = 2 * LIMIT
    assert memory.head_room == 0


def test_a_large_job_waits_for_room_unless_nobody_else_has_any():
    memory = Memory(LIMIT)
    memory.connections = LIMIT // 2
    assert memory.has_room_for(LIMIT // 2)
    assert not memory.has_room_for(LIMIT // 2 + 1)
    memory.connections = 0
    memory.queues = memory.max_queues
    assert memory.has_room_for(LIMIT)


def test_what_is_small_is_not_counted():
    memory = Memory(LIMIT)
    client = Client(COUNTED_BYTES - 1)
    assert counted(memory, client).count(client) == 0
    assert memory.connections == 0


def test_the_largest_give_up_until_there_is_room_again():
    memory = Memory(LIMIT)
    small = [Client(MIB) for _ in range(20)]
    large, larger = Client(15 * MIB), Client(20 * MIB)
    holders = counted(memory, *small, large, larger)
    assert not any(client.is_closed for client in (*small, large, larger))
    last = Client(10 * MIB)
    holders.count(last)
    assert larger.is_closed
    assert not any(client.is_closed for client in (*small, large, last))
    assert memory.connections == 45 * MIB
    assert memory.closed_connections == 1


def test_one_who_has_read_since_he_was_counted_is_not_the_largest_any_more():
    memory = Memory(LIMIT)
    reader, sender = Client(unread=40 * MIB), Client(20 * MIB)
    holders = counted(memory, reader, sender)
    reader.unread, sender.held = 0, 30 * MIB
    holders.count(sender)
    assert not reader.is_closed and not sender.is_closed
    assert memory.connections == 30 * MIB


def test_connections_are_left_their_part_whatever_others_hold():
    memory = Memory(LIMIT)
    memory.queues, memory.in_hand = memory.max_queues, memory.max_in_hand
    client = Client(LIMIT // 8)
    counted(memory, client)
    assert not client.is_closed
    client.held += MIB
    assert memory.room < 0
    counted(memory, client)
    assert client.is_closed


def test_one_who_does_not_read_is_closed_when_connections_hold_half_of_all():
    memory = Memory(LIMIT)
    stalled, slow = Client(unread=20 * MIB), Client(unread=14 * MIB)
    holders = counted(memory, stalled, slow)
    for _ in range(STALLED_LOOKS + 1):
        holders.look()
        slow.unread -= 1
    assert stalled.is_closed and not slow.is_closed
    holders.look()
    assert memory.connections == slow.unread


def test_one_who_does_not_read_is_left_alone_while_there_is_room():
    memory = Memory(LIMIT)
    stalled = Client(unread=20 * MIB)
    holders = counted(memory, stalled)
    for _ in range(2 * STALLED_LOOKS):
        holders.look()
    assert not stalled.is_closed


def test_one_who_is_gone_holds_nothing():
    memory = Memory(LIMIT)
    client = Client(MIB)
    holders = counted(memory, client)
    assert holders.forget(client) == MIB
    assert holders.forget(client) == 0
    assert memory.connections == 0
