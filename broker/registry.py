"""All queues: what they are called, which number each has, and which of them can be forgotten."""

import itertools
from collections.abc import Callable, Sequence

from manyhands.broker.jobs import Refused, check_queue
from manyhands.broker.queues import Queue
from manyhands.broker.reading import Snapshot
from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.broker.statements import clear_queues, forget_queues
from manyhands.broker.store import Store

# So many queues are looked at in one turn of the loop; so many that are empty stay listed.
LOOKED_AT_QUEUES = 20_000
KEPT_EMPTY_QUEUES = 1000


class Queues:
    """State: the queues by name and by number, the highest number that was given, how many of them
    nobody pushed to, and which are yet to be looked at."""

    def __init__(self, store: Store) -> None:
        self.by_name: dict[str, Queue] = {}
        # How many so far: whoever keeps queues for later sees by it when to look anew.
        self.forgotten = 0
        self._store = store
        self._memory = store.memory
        self._by_number: dict[int, Queue] = {}
        self._last_number = 0
        self._unused = 0
        self._unseen: list[Queue] = []

    def restore(self, snapshot: Snapshot) -> None:
        for number, name, is_paused, rows, last_key in snapshot.queues:
            queue = self._add(number, name, last_key or number << SEQUENCE_BITS, rows)
            queue.is_paused, queue.is_stored = is_paused, True
            # A paused queue without jobs must be there to be resumed.
            queue.is_listed = rows > 0 or is_paused
        for key in snapshot.gone:
            if (number := key >> SEQUENCE_BITS) in self._by_number:
                self._by_number[number].skipped.add(key)

    def of_key(self, key: int) -> Queue:
        """The queue of a job."""
        return self._by_number[key >> SEQUENCE_BITS]

    def listed(self) -> list[Queue]:
        """Those that were pushed to; a FETCH alone does not make a queue."""
        return [queue for queue in self.by_name.values() if queue.is_listed]

    # For a FETCH

    def named(self, names: Sequence[str]) -> list[Queue]:
        return [self.by_name.get(name) or self._fetched_only(name) for name in names if name]

    def renewed(self, queues: Sequence[Queue]) -> Sequence[Queue]:
        """For a FETCH that had to wait for its turn: some may have been forgotten meanwhile."""
        if not any(queue.is_forgotten for queue in queues):
            return queues
        return [self.by_name.get(queue.name) or self._new(queue.name) for queue in queues]

    def _fetched_only(self, name: str) -> Queue:
        check_queue(name)
        if self._unused >= self._memory.max_unused_queues:
            raise self._too_many()
        return self._new(name)

    # For a PUSH

    def pushed_to(self, name: str) -> Queue:
        queue = self.by_name.get(name)
        if queue is None:
            self.check_room_for(name)
            queue = self._new(name)
        if not queue.is_listed:
            queue.is_listed = True
            self._store_state(queue)
        return queue

    def check_room_for(self, name: str) -> None:
        if name not in self.by_name and len(self.by_name) >= self._memory.max_queues:
            raise self._too_many()

    def _too_many(self) -> Refused:
        count = len(self.by_name)
        return Refused(
            f"there are too many queues ({count}): use fewer of them, or raise BROKER_MEMORY_MB"
        )

    # Changes of whole queues

    def set_paused(self, queue: Queue, is_paused: bool) -> None:
        queue.is_paused = is_paused
        self._store_state(queue)

    def clear(self, queues: Sequence[Queue], in_use: set[int], kept_keys: list[int]) -> None:
        """Delete the jobs of queues but for some keys; `in_use` are the numbers of queues that
        have jobs elsewhere than at rest."""
        cleared = {queue.id for queue in queues}
        others = {queue.id for queue in self.by_name.values() if queue.size} | in_use
        for queue in queues:
            queue.clear()
        self._store.wipe(*clear_queues(cleared, others - cleared, kept_keys))

    def forget_unused(self, in_use: Callable[[], set[int]]) -> None:
        """A FETCH can name any queue, and so can a PUSH: one that is empty and that nobody uses
        must not stay in memory. Of those that were pushed to, some stay listed. A part of them is
        looked at each time."""
        if not self._unseen:
            self._unseen = list(reversed(self.by_name.values()))
        seen = self._unseen[-LOOKED_AT_QUEUES:]
        del self._unseen[-LOOKED_AT_QUEUES:]
        idle = [queue for queue in seen if self._is_idle(queue)]
        forgotten = [queue for queue in idle if not queue.is_stored]
        stored = [queue for queue in idle if queue.is_stored and not queue.is_listed]
        excess = len(self.by_name) - len(forgotten) - len(stored) - KEPT_EMPTY_QUEUES
        stored += itertools.islice((queue for queue in idle if queue.is_listed), max(0, excess))
        used = in_use() if stored else set()
        forgotten += [queue for queue in stored if queue.id not in used]
        for queue in forgotten:
            self._drop(queue)
        if numbers := [queue.id for queue in forgotten if queue.is_stored]:
            self._store.run_alone(*forget_queues(numbers))

    def _is_idle(self, queue: Queue) -> bool:
        queue.shed()
        # A queue of this name may have been forgotten since the list was made.
        is_here = self._by_number.get(queue.id) is queue
        return is_here and not (queue.size or queue.waiters or queue.is_paused)

    def _drop(self, queue: Queue) -> None:
        queue.clear()
        queue.is_forgotten = True
        del self.by_name[queue.name]
        del self._by_number[queue.id]
        self._memory.queues -= 1
        if not queue.is_stored:
            self._unused -= 1
        self.forgotten += 1

    def _new(self, name: str) -> Queue:
        self._unused += 1
        number = self._last_number + 1
        return self._add(number, name, number << SEQUENCE_BITS, 0)

    def _add(self, number: int, name: str, last_key: int, rows: int) -> Queue:
        queue = Queue(number, name, self._store.reader, self._memory, last_key=last_key, rows=rows)
        self.by_name[name] = self._by_number[number] = queue
        self._last_number = max(self._last_number, number)
        self._memory.queues += 1
        return queue

    def _store_state(self, queue: Queue) -> None:
        if not queue.is_stored:
            queue.is_stored = True
            self._unused -= 1
        self._store.batch.queues.append((queue.id, queue.name, queue.is_paused))
