"""Whose are the queues `fetch.NN` of a broker? Pure: `now` and what INFO lists are passed in.

Anybody may push there, so they must belong to one store of crawls. A Faktory has no place for such
a note but its queues: one job that stays in `manyhands.state.<tag>`, and that nobody fetches, marks
the broker as that store's. A store that wants it pushes its mark and looks again. If it sees the
mark of another one then, it takes its own back and tries again after a random time: whichever of
two pushes came second, its look comes after both of them, so two never read themselves as alone.
("The lowest tag wins" would be unsafe: the other one may have read itself as alone already.)

All services of a store share its mark. One that starts and finds it beside another store's does not
take it back at once, since a sibling may hold by it: a contender of the other store gives way, and
a mark whose contender was killed before it could is cleared by whoever holds. If nobody does that,
nobody holds, and the mark is taken back after all. (Should a sibling hold even so, it finds the
mark gone at its next look, and starts over.)

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
# So long a mark of our store that another service has pushed is left beside one of another store:
# one who holds has cleared that by then.
SIBLINGS_CLEAR_WITHIN_S = 2 * SURE_AFTER_S


class Step(StrEnum):
    """What to do after a look; after PUSH and LOOK comes another look at once. CLEAR removes the
    marks of the others."""

    REST = "rest"
    LOOK = "look"
    PUSH = "push"
    TAKE_BACK = "take back"
    CLEAR = "clear"


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
    """Of those that belong to the store that has claimed the broker; also what the settings call
    all of them, `fetch.*`."""
    base, _, number = name.rpartition(".")
    return base == FETCH_QUEUE and (number == "*" or number.isdecimal())


def are_fetch_queues(names: Iterable[str]) -> bool:
    """Whether any of them is."""
    return any(is_fetch_queue(name) for name in names)


class FetchClaim:
    """What one service knows of it. `tag` is that of its store; empty: it has none, and may fetch
    as long as no store has claimed the broker.

    State: whether it may fetch; whether our mark was there before the last look began, and whether
    it is this service's; the stores of other marks, since when there are any, and since when there
    are without ours; and until when nothing is pushed."""

    def __init__(self, tag: str, draw_s: Callable[[float, float], float] = random.uniform) -> None:
        self.tag = tag
        self.may_fetch = False
        self.others: frozenset[str] = frozenset()
        self._draw_s = draw_s
        self._was_marked = False
        self._has_pushed = False
        self._met_since: float | None = None
        self._others_since: float | None = None
        self._wait_until: float | None = None

    def looked(self, marks: Collection[str], now: float) -> Step:
        """`marks` are the tags that INFO showed, `now` is in seconds of any clock that only
        advances."""
        self.others = frozenset(marks) - {self.tag}
        self._met_since = _since(self._met_since, now, is_so=bool(self.others))
        is_anothers = bool(self.others) and self.tag not in marks
        self._others_since = _since(self._others_since, now, is_so=is_anothers)
        if not self.tag:
            self.may_fetch = not self.others
            return Step.REST
        was_marked, self._was_marked = self._was_marked, self.tag in marks
        if not self._was_marked:
            # Not yet, or a FLUSH has removed it.
            self.may_fetch = self._has_pushed = False
            return self._without_a_mark(now)
        if self.may_fetch:
            # Others who push now will see our mark and take theirs back, if they live.
            return Step.CLEAR if self._have_met_for(SURE_AFTER_S, now) else Step.REST
        if self.others:
            return self._beside_others(now)
        # INFO counts one queue after the other: this look says that we are alone only if our mark
        # was there before it began.
        self.may_fetch = was_marked
        return Step.REST if was_marked else Step.LOOK

    def pushed(self) -> None:
        """The broker has our mark."""
        self._was_marked = self._has_pushed = True

    def is_anothers(self, now: float) -> bool:
        """For certain: it is no contender that sees another one and gives way."""
        since = self._others_since
        return not self.may_fetch and since is not None and now - since >= SURE_AFTER_S

    def _have_met_for(self, seconds: float, now: float) -> bool:
        """Marks of others have been there in every look for so long."""
        return self._met_since is not None and now - self._met_since >= seconds

    def _beside_others(self, now: float) -> Step:
        is_siblings = not self._has_pushed
        self._was_marked = False
        if is_siblings and not self._have_met_for(SIBLINGS_CLEAR_WITHIN_S, now):
            return Step.REST
        self._has_pushed = False
        self._wait_until = now + self._draw_s(0.0, LONGEST_WAIT_S)
        return Step.TAKE_BACK

    def _without_a_mark(self, now: float) -> Step:
        if self.others:
            return Step.REST
        if self._wait_until is not None and now < self._wait_until:
            return Step.REST
        self._wait_until = None
        return Step.PUSH


def _since(before: float | None, now: float, *, is_so: bool) -> float | None:
    """Since when it is so; None: it is not."""
    if not is_so:
        return None
    return now if before is None else before
