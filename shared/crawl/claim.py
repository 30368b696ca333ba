"""Whose are the queues `fetch.NN` of a broker? Pure: `now` and what INFO lists are passed in.

Anybody may push there, so they must belong to one store of crawls. A Faktory has no place for such
a note but its queues: one job that stays in `manyhands.state.<tag>`, and that nobody fetches, marks
the broker as that store's. A store that wants it pushes its mark and looks again. If it sees the
mark of another one then, it takes its own back and tries again after a random time: whichever of
two pushes came second, its look comes after both of them, so two never read themselves as alone.
("The lowest tag wins" would be unsafe: the other one may have read itself as alone already.)

All services of a store share its mark. If one of them takes it back while another already holds,
the other finds it gone at its next look, and starts over.

No crawl depends on this: its messages have the store's tag in their queues' names. The claim keeps
people from running two stores on one broker by mistake, where each would fetch some of the URLs.
"""

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from manyhands.shared.jobs import Job, new_jid
from manyhands.shared.urls import FETCH_QUEUE

_PREFIX = "manyhands.state."
# Also the type of the job that is the mark: no handler has such a name.
MARK = "manyhands.state"
# A mark that others do not take back within so long is no contender's.
SURE_AFTER_S = 3.0
# Longer than the time between two looks, so that two who wait look at different times.
LONGEST_WAIT_S = 5.0


class Step(StrEnum):
    """What to do after a look; after PUSH and LOOK comes another look at once."""

    REST = "rest"
    LOOK = "look"
    PUSH = "push"
    TAKE_BACK = "take back"


def mark_queue(tag: str) -> str:
    return f"{_PREFIX}{tag}"


def is_mark_queue(name: str) -> bool:
    return name.startswith(_PREFIX)


def marked_by(sizes: Mapping[str, int]) -> frozenset[str]:
    """The tags of the stores whose marks are on a broker with these queues."""
    return frozenset(
        name.removeprefix(_PREFIX) for name, size in sizes.items() if size and is_mark_queue(name)
    )


def mark_job(tag: str, who: str) -> Job:
    """`who` is for people who look at the queue. Lost when somebody fetches it and does not answer:
    it must not come back then, as nobody would know of it."""
    return Job(jobtype=MARK, args=[tag, who], queue=mark_queue(tag), jid=new_jid(), retry=0)


def is_fetch_queue(name: str) -> bool:
    """Of those that belong to the store that has claimed the broker."""
    base, _, number = name.rpartition(".")
    return base == FETCH_QUEUE and number.isdecimal()


def are_fetch_queues(names: Iterable[str]) -> bool:
    """Whether any of them is."""
    return any(is_fetch_queue(name) for name in names)


class FetchClaim:
    """What one service knows of it. `tag` is that of its store; empty: it has none, and may fetch
    as long as no store has claimed the broker.

    State: whether it may fetch; whether our mark was there before the last look began; whose the
    broker is, and since when it has been another's; and until when nothing is pushed."""

    def __init__(self, tag: str, draw_s: Callable[[float, float], float] = random.uniform) -> None:
        self.tag = tag
        self.may_fetch = False
        self.others: frozenset[str] = frozenset()
        self._draw_s = draw_s
        self._was_marked = False
        self._others_since: float | None = None
        self._wait_until: float | None = None

    def looked(self, marks: Collection[str], now: float) -> Step:
        """`marks` are the tags that INFO showed, `now` is in seconds of any clock that only
        advances."""
        self.others = frozenset(marks) - {self.tag}
        if not self.others:
            self._others_since = None
        elif self._others_since is None:
            self._others_since = now
        if not self.tag:
            self.may_fetch = not self.others
            return Step.REST
        was_marked, self._was_marked = self._was_marked, self.tag in marks
        if not self._was_marked:
            # Not yet, or a FLUSH has removed it.
            self.may_fetch = False
            return self._without_a_mark(now)
        if self.may_fetch:
            # Others who push now will see our mark and take theirs back.
            self._others_since = None
            return Step.REST
        if self.others:
            self._was_marked = False
            self._wait_until = now + self._draw_s(0.0, LONGEST_WAIT_S)
            return Step.TAKE_BACK
        # INFO counts one queue after the other: this look says that we are alone only if our mark
        # was there before it began.
        self.may_fetch = was_marked
        return Step.REST if was_marked else Step.LOOK

    def pushed(self) -> None:
        """The broker has our mark."""
        self._was_marked = True

    def is_anothers(self, now: float) -> bool:
        """For certain: it is no contender that sees another one and gives way."""
        since = self._others_since
        return not self.may_fetch and since is not None and now - since >= SURE_AFTER_S

    def _without_a_mark(self, now: float) -> Step:
        if self.others:
            return Step.REST
        if self._wait_until is not None and now < self._wait_until:
            return Step.REST
        self._wait_until = None
        return Step.PUSH
