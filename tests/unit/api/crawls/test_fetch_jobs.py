"""Where a fetch job is: the last URL that was made of it, over requeues and redirects."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from manyhands.api.crawls.fetch_jobs import find
from manyhands.shared.crawl.fetch_jobs import key_of
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import JobRow, Layout
from manyhands.shared.crawl.store.protocol import ShardReaders

NOW, JID, OTHER = 1000.0, "the-jid", "another"
LAYOUT = Layout(1, 4, 4, 4)


class Readers:
    """State: what is stored, by turn and hop, and of another job beside it, and how often it was
    asked."""

    def __init__(
        self,
        stored: dict[tuple[int, int], UrlState],
        other: dict[tuple[int, int], UrlState] | None = None,
        **more: Any,
    ) -> None:
        self._stored = {
            key_of(jid, *place): (place, state)
            for jid, of_job in ((JID, stored), (OTHER, other or {}))
            for place, state in of_job.items()
        }
        self._more = more
        self.asked = 0

    def jobs(self, layout: Layout, keys: Sequence[bytes]) -> list[JobRow]:
        assert layout is LAYOUT
        self.asked += 1
        rows = [
            self._row(place, *self._stored[key])
            for place, key in enumerate(keys)
            if key in self._stored
        ]
        # Shard by shard.
        return rows[::-1]

    def _row(self, place: int, at: tuple[int, int], state: UrlState) -> JobRow:
        row = JobRow(place, f"http://a.example/{at[0]}/{at[1]}", state, 200, "why", 1, NOW, 0.0)
        return row._replace(**self._more)


def found(readers: Readers) -> Any:
    return find(cast("ShardReaders", readers), LAYOUT, JID, NOW)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (UrlState.QUEUED, "waiting"),
        (UrlState.CLAIMED, "in flight"),
        (UrlState.PARSING, "parsing"),
        (UrlState.DONE, "done"),
        (UrlState.FAILED, "dead"),
        (UrlState.DISALLOWED, "dead"),
        (UrlState.CANCELLED, "dead"),
    ],
)
def test_its_state_has_a_name(state: UrlState, name: str) -> None:
    view = found(Readers({(0, 0): state}))
    assert (view.jid, view.state, view.status) == (JID, name, 200)


def test_one_that_is_the_same_as_another_says_where_that_is() -> None:
    hops = {(1, 0): UrlState.REDIRECTED, (1, 1): UrlState.DONE}
    view = found(Readers({(0, 0): UrlState.SAME}, hops, reason=OTHER))
    assert (view.state, view.reason) == ("same", "the same as another")
    assert (view.same_as.jid, view.same_as.state) == (OTHER, "done")
    assert view.same_as.url == "http://a.example/1/1"
    gone = found(Readers({(0, 0): UrlState.SAME}, reason=OTHER))
    assert gone.same_as.model_dump() == {"jid": OTHER, "state": "forgotten"}


def test_a_refused_one_says_by_what() -> None:
    assert found(Readers({(0, 0): UrlState.DISALLOWED}, reason="robots.txt")).reason == (
        "not allowed by robots.txt"
    )


def test_one_that_waits_says_until_when_if_that_is_known() -> None:
    waiting = {(0, 0): UrlState.QUEUED}
    assert found(Readers(waiting, due_at=NOW + 5)).until.timestamp() == NOW + 5
    assert found(Readers(waiting, due_at=NOW - 5)).until is None
    assert found(Readers({(0, 0): UrlState.DONE}, due_at=NOW + 5)).until is None


def test_one_that_is_next_in_line_waits_for_its_domain() -> None:
    assert found(Readers({(0, 0): UrlState.CLAIMED}, due_at=NOW + 5)).state == "waiting"


def test_one_that_is_not_there_is_asked_for_once() -> None:
    readers = Readers({})
    assert found(readers) is None
    assert readers.asked == 1


def test_the_shards_are_asked_no_more_than_they_must() -> None:
    for stored, questions in (
        ({(0, 0): UrlState.DONE}, 1),
        ({(turn, 0): UrlState.FAILED for turn in range(3)}, 1),
        ({(0, 0): UrlState.REDIRECTED, (0, 1): UrlState.REDIRECTED, (0, 2): UrlState.DONE}, 2),
        ({(0, 0): UrlState.REDIRECTED, (0, 1): UrlState.REDIRECTED}, 2),
    ):
        readers = Readers(stored)
        assert found(readers) is not None
        assert readers.asked == questions, stored


def test_redirects_are_followed_to_the_last() -> None:
    hops = {(0, hop): UrlState.REDIRECTED for hop in range(11)}
    assert found(Readers(hops)).state == "redirected"
    assert found(Readers(hops | {(0, 11): UrlState.DONE})).url.endswith("/0/11")


def test_what_was_requeued_counts_even_if_earlier_turns_are_forgotten() -> None:
    turns = {(turn, 0): UrlState.FAILED for turn in range(5, 20)}
    view = found(Readers(turns | {(20, 0): UrlState.REDIRECTED, (20, 1): UrlState.QUEUED}))
    assert (view.state, view.url) == ("waiting", "http://a.example/20/1")
