"""What is said and done while the places that keep the shards are away."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from manyhands.shared.crawl.store.absence import Absence
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_watch import SAY_AFTER_S, StoreWatch


class Watched:
    """State: two places, four shards, the log, and how often the change of a place was heard."""

    def __init__(self) -> None:
        self.places = [Absence("first"), Absence("second")]
        self.shards = {number: OwnedShard(number, 1) for number in range(4)}
        with capture_logs() as self.lines:
            self.watch = StoreWatch(self.places, self.shards, "me")
        self.changes = 0
        self.watch.changed.tell(self._changed)

    def look(self, now: float) -> list[Any]:
        """What was logged."""
        with capture_logs() as lines:
            self.watch.look(now)
        return lines

    def away(self) -> list[int]:
        return [number for number, shard in self.shards.items() if shard.is_away]

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_absence_is_said_once_with_its_cause_and_its_end_with_its_length(
    watched: Watched,
) -> None:
    watched.places[0].failed("connection refused", 10.0)
    assert watched.look(10.1) == []
    (line,) = watched.look(10.0 + SAY_AFTER_S)
    assert (line["place"], line["reason"]) == ("first", "connection refused")
    assert watched.look(15.0) == []
    watched.places[0].worked(22.5)
    (line,) = watched.look(22.6)
    assert (line["place"], line["away_s"]) == ("first", 12.5)
    assert watched.look(30.0) == []


def test_one_that_is_back_at_once_is_not_worth_a_line_but_work_waits(watched: Watched) -> None:
    watched.places[0].failed("connection refused", 10.0)
    assert watched.look(10.1) == []
    assert watched.watch.is_all_away
    watched.places[0].worked(10.5)
    assert watched.look(10.6) == []
    assert not watched.watch.is_all_away
    assert watched.changes == 2


def test_without_the_control_store_all_shards_wait(watched: Watched) -> None:
    watched.places[0].failed("refused", 10.0)
    watched.look(11.0)
    assert watched.away() == [0, 1, 2, 3]


def test_shards_elsewhere_go_on(watched: Watched) -> None:
    watched.places[1].failed("refused", 10.0)
    watched.look(11.0)
    assert (watched.away(), watched.watch.shards_away) == ([1, 3], 2)
    assert not watched.watch.is_all_away
    watched.places[1].worked(12.0)
    watched.look(12.1)
    assert watched.away() == []


def test_what_is_waited_for_is_said_in_words_and_seconds(watched: Watched) -> None:
    assert watched.watch.waits_for(10.0) == ""
    watched.places[1].failed("refused", 10.0)
    assert watched.watch.waits_for(22.0) == "the crawls' state in second, away for 12 s: refused"
    assert watched.watch.away_s(22.0) == 12.0
