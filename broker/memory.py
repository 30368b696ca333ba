"""What the broker holds for its clients, all of them together, and how much it may hold. Pure.

Each layer counts what it holds where it is large or many: connections what was sent and is not run
yet, and what was answered and is not read yet; the store what is not written yet; queues
themselves and their heads. What the rest of the process takes is taken off beforehand.
"""

MIB = 1024 * 1024
# The interpreter, its modules, SQLite's pages, the jids of recent pushes, and what the allocator
# keeps for itself.
PROCESS_BYTES = 96 * MIB
# While a line is run and stored there are the line, what is decoded of it, the job as it is kept,
# and SQLite's own copy.
LINE_COPIES = 4
# What the objects themselves take: a job beside its payload, a queue, an answer that waits, and a
# FETCH's place in the line of one queue.
JOB_BYTES = 400
QUEUE_BYTES = 400
ANSWER_BYTES = 256
PLACE_BYTES = 128
# Up to this much, all connections together are always let have.
ALWAYS_BYTES = MIB


def held_limit(memory_bytes: int, max_line_bytes: int) -> int:
    """What is left for clients, in a process of so many bytes; at least one line."""
    return memory_bytes - PROCESS_BYTES - LINE_COPIES * max_line_bytes


class Memory:
    """State: bytes of connections, of heads and of what is not written; the number of queues and
    of jobs in hand; how many connections were closed for want of room."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.connections = 0
        self.heads = 0
        self.unwritten = 0
        self.queues = 0
        self.in_hand = 0
        self.closed_connections = 0
        # What stays, because nobody may take it away, leaves room for what passes through.
        self.max_queues = limit * 3 // 4 // QUEUE_BYTES
        self.max_unused_queues = limit // 4 // QUEUE_BYTES
        self.max_in_hand = limit // 2 // JOB_BYTES

    @property
    def held(self) -> int:
        return self.limit - self.room

    @property
    def room(self) -> int:
        return (
            self.limit
            - self.connections
            - self.heads
            - self.unwritten
            - self.queues * QUEUE_BYTES
            - self.in_hand * JOB_BYTES
        )

    @property
    def head_room(self) -> int:
        """How far one queue's head may grow: less and less the more the others have, so that
        there is always some."""
        return max(0, min(self.limit // 4 - self.heads, self.room)) // 4

    def has_room_for(self, payload_bytes: int) -> bool:
        """Whether a large job may go to a client, who may be slow to read it. When nobody else
        has any, always: it must go out one day."""
        return payload_bytes <= self.room or self.connections <= ALWAYS_BYTES

    @property
    def excess(self) -> int:
        """So much must connections give up. An eighth is always theirs, whatever others hold."""
        if self.room >= 0:
            return 0
        return max(0, min(self.limit // 16 - self.room, self.connections - self.limit // 8))
