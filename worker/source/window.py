"""How many FETCHes to have outstanding, and on which lane. Pure: no I/O, `now` is passed in.

Each outstanding FETCH is a promise of a slot, and a job that a crash can strand: so there are as
many as the path needs to stay full, and no more. By Little's law that is the rate of answers ×
the round trip; a quarter more lets it grow, eight per lane keep the server busy without waiting
for our next line. With an empty queue it falls to a handful in all.

FETCHes and results share the path and the server, so they are bounded together: once that many
wait for an answer, each answer lets one FETCH out. A bound on the results alone stopped the FETCHes
altogether each time that it was reached, and half a second later, when the results were gone, the
server had neither to do.

Invariants, held by `credits`:
    outstanding + running ≤ slots
    no FETCH is sent while more lines wait for their answers than the path and the server can hold
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from math import ceil

# The rate is counted in intervals; the best of the last few counts, so that jobs that all end
# at once (a first wave of equal length) find the window of the wave before.
INTERVAL_S = 0.1
REMEMBERED_INTERVALS = 30
HEADROOM = 1.25
DEPTH_PER_LANE = 8
# FETCHes and results together that the server may have waiting, for each fetch lane.
LINES_PER_LANE = 24
# Our broker drops the FETCHes of a connection that is gone, so they may be many; it has few lanes.
BROKER_DEPTH_PER_LANE = 1024
BROKER_LINES_PER_LANE = 4096
ERROR_PAUSE_S = 1.0
# Jobs that are started all at once end all at once, if they are alike, and then the loop is busy
# for as long as all of them together need: at 10,000 slots a quarter of a second, wave after wave.
# So FETCHes follow the jobs that ended, a quarter more than these, and beyond that this many per
# second, and at a time.
REPLACEMENT = 1.25
MORE_PER_S = 10_000
BURST = 64
# Under load FETCHes go out in groups of at most this many: a single line costs a system call here,
# one at the server, and a packet.
GROUP = 8


class RateMeter:
    """Jobs per second: the highest of the remembered intervals."""

    def __init__(self) -> None:
        self._started_at = 0.0
        self._count = 0
        self._rates: deque[float] = deque(maxlen=REMEMBERED_INTERVALS)

    def count(self, now: float) -> None:
        if now - self._started_at >= INTERVAL_S:
            self._close_interval(now)
        self._count += 1

    def per_second(self, now: float) -> float:
        if now - self._started_at >= INTERVAL_S:
            self._close_interval(now)
        return max(self._rates, default=0.0)

    def _close_interval(self, now: float) -> None:
        elapsed_s = now - self._started_at
        if elapsed_s > INTERVAL_S * REMEMBERED_INTERVALS:
            # The last count is too old to be of use.
            self._rates.clear()
        self._rates.append(self._count / elapsed_s)
        self._started_at = now
        self._count = 0


@dataclass(slots=True)
class Window:
    """The credit account of one list of queues.

    State: `running` jobs and `outstanding` FETCHes now; `size`, the number of FETCHes that we
    would like to have outstanding; how many jobs have `ended`, and how many of them were `replaced`
    by new FETCHes; how many `more` may be sent, and whether that `is_cut_short` what we would like;
    the measured rate and round trip.
    """

    slots: int
    idle_fetches: int
    planned_lanes: int = 1
    depth_per_lane: int = DEPTH_PER_LANE
    lines_per_lane: int = LINES_PER_LANE
    lanes: int = 0
    running: int = 0
    outstanding: int = 0
    size: int = 0
    ended: int = 0
    replaced: int = 0
    more: float = BURST
    more_at: float = 0.0
    is_cut_short: bool = False
    round_trip_s: float = 0.0
    is_open: bool = True
    held_until: float = 0.0
    meter: RateMeter = field(default_factory=RateMeter)

    def __post_init__(self) -> None:
        self.idle_fetches = min(self.idle_fetches, self.slots)
        self.size = self.idle_fetches

    def credits(self, now: float, unanswered_results: int) -> int:
        """How many FETCHes may be sent now."""
        if not self.is_open or self.lanes == 0 or self.is_held(now):
            return 0
        free = self.slots - self.outstanding - self.running
        room = self._useful_lines(now) - self.outstanding - unanswered_results
        wanted = max(0, min(free, room, self._target(now) - self.outstanding))
        startable = self._replacements + int(self._more(now))
        self.is_cut_short = wanted > startable
        return min(wanted, startable)

    def is_held(self, now: float) -> bool:
        """After an error, for a moment."""
        return now < self.held_until

    @property
    def is_busy(self) -> bool:
        """Jobs come thick enough that gathering lines for a moment costs nobody anything."""
        return self.outstanding + self.running > self.idle_fetches + self.lanes

    @property
    def is_idle(self) -> bool:
        """Nothing came since the last FETCH was answered empty: further FETCHes only listen."""
        return self.size <= self.idle_fetches

    def sent(self, count: int, now: float) -> None:
        self.outstanding += count
        self.more = self._more(now) - max(0, count - self._replacements)
        self.more_at = now
        self.replaced = self.ended

    def job_arrived(self, now: float) -> None:
        """An answer carried a job: there may be more, so one more FETCH than before."""
        self.outstanding -= 1
        self.running += 1
        if self.size < self.slots:
            self.size += 1
        self.meter.count(now)

    def empty_answer(self) -> None:
        """A FETCH waited for its two seconds and got nothing: the queues are empty."""
        self.outstanding -= 1
        self.size = self.idle_fetches

    def error_answer(self, now: float) -> None:
        """The server could not serve a FETCH: do not hammer it."""
        self.empty_answer()
        self.held_until = now + ERROR_PAUSE_S

    def lane_lost(self, unanswered: int) -> None:
        self.outstanding -= unanswered
        self.replaced -= unanswered

    def job_ended(self) -> None:
        self.running -= 1
        self.ended += 1

    @property
    def _replacements(self) -> int:
        return ceil((self.ended - self.replaced) * REPLACEMENT)

    def _more(self, now: float) -> float:
        return min(BURST, self.more + (now - self.more_at) * MORE_PER_S)

    def _target(self, now: float) -> int:
        """Lanes that are still to come up get their share when they do, so that the first one
        is not given all of it."""
        target = min(self.size, self._useful(now))
        return ceil(target * self.lanes / max(self.lanes, self.planned_lanes))

    def _useful(self, now: float) -> int:
        return max(self.idle_fetches, self._flying(now) + self.depth_per_lane * self.lanes)

    def _useful_lines(self, now: float) -> int:
        """Above this many, FETCHes and results queue up at the server instead of being answered.

        Slots do not bound it: a job that waits only for the answer to its result has left its slot,
        and a bound by slots would make each of them wait for two round trips per job."""
        return 2 * self._flying(now) + self.lines_per_lane * self.lanes

    def _flying(self, now: float) -> int:
        """In each direction; no more than there are slots, whatever a short interval counted."""
        return min(self.slots, ceil(self.meter.per_second(now) * self.round_trip_s * HEADROOM))


def spread(count: int, outstanding: Sequence[int]) -> list[int]:
    """Give `count` new FETCHes to lanes, a group to each in turn, the least loaded first.

    Returns how many each lane gets. A FETCH that waits behind another one on an empty queue waits
    two seconds longer, so level lanes are what keeps a trickle of jobs prompt: a group is no larger
    than what a lane has on average.
    """
    lanes = len(outstanding)
    group = max(1, min(GROUP, (sum(outstanding) + count) // lanes))
    groups, rest = divmod(count, group)
    everyone, more = divmod(groups, lanes)
    given = [everyone * group] * lanes
    *whole, last = nsmallest(more + 1, range(lanes), key=outstanding.__getitem__)
    for lane in whole:
        given[lane] += group
    given[last] += rest
    return given
