"""Where a fetch job is, by its jid: asked of all shards, since the jid does not say which has it.
Pure but for the readers."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from manyhands.shared.crawl.fetch_jobs import cause_of, keys_of
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import JobRow, Layout
from manyhands.shared.crawl.store.protocol import ShardReaders

# Asked for at a time: most jobs are never requeued, and lead through a redirect or none.
TURNS_AT_ONCE = 8
HOPS_AT_ONCE = 6
_NAMES = {
    UrlState.QUEUED: "waiting",
    UrlState.CLAIMED: "in flight",
    UrlState.PARSING: "parsing",
    UrlState.DONE: "done",
    UrlState.REDIRECTED: "redirected",
    UrlState.SAME: "same",
}
DEAD = "dead"
FORGOTTEN = "forgotten"


class JobState(BaseModel):
    jid: str
    state: str = Field(
        examples=["queued"],
        description="of a job in the broker: as it says. Of a fetch job in the store: waiting, "
        "in flight, redirected (its next URL is on its way), parsing, done, dead or same (as an "
        "earlier one of its URL: not fetched again)",
    )


class FetchJobState(JobState):
    """Of a fetch job that the store has."""

    url: str = Field(description="After the redirects so far")
    until: datetime | None = Field(description="Its domain is not asked before")
    status: int = Field(description="of HTTP; 0 without an answer")
    reason: str = Field(description="Why there is no page, or not yet")
    attempts: int
    updated_at: datetime
    same_as: Annotated[
        "FetchJobState | JobState | None",
        Field(
            description="Where the job is that it is the same as; forgotten if it ended long ago"
        ),
    ] = None


def find(readers: ShardReaders, layout: Layout, jid: str, now: float) -> FetchJobState | None:
    """None: the store has never had it, or has forgotten it."""
    row = _last(readers, layout, jid)
    if row is None:
        return None
    found = _view(jid, row, now)
    if row.state is UrlState.SAME:
        first = _last(readers, layout, row.reason)
        found.same_as = (
            _view(row.reason, first, now)
            if first is not None
            else JobState(jid=row.reason, state=FORGOTTEN)
        )
    return found


def _last(readers: ShardReaders, layout: Layout, jid: str) -> JobRow | None:
    """The last URL that was made of it. Requeued from the dead set it begins a new turn."""
    found = _last_of(readers, layout, jid, [(turn, 0) for turn in range(TURNS_AT_ONCE)])
    while found is not None and found.may_go_on:
        turns = [(found.turn + 1 + at, 0) for at in range(TURNS_AT_ONCE)]
        later = _last_of(readers, layout, jid, turns)
        if later is None:
            break
        found = later
    while found is not None and found.row.state is UrlState.REDIRECTED:
        hops = [(found.turn, found.hop + 1 + at) for at in range(HOPS_AT_ONCE)]
        later = _last_of(readers, layout, jid, hops)
        if later is None:
            break
        found = later
        if not found.may_go_on:
            break
    return None if found is None else found.row


class _Found(NamedTuple):
    """The last of the places that were asked for; `may_go_on`: and so there may be more."""

    row: JobRow
    turn: int
    hop: int
    may_go_on: bool


def _last_of(
    readers: ShardReaders, layout: Layout, jid: str, places: Sequence[tuple[int, int]]
) -> _Found | None:
    rows = readers.jobs(layout, keys_of(jid, places))
    if not rows:
        return None
    row = max(rows, key=lambda row: row.place)
    return _Found(row, *places[row.place], may_go_on=row.place == len(places) - 1)


def _view(jid: str, row: JobRow, now: float) -> FetchJobState:
    # One that is claimed is next in line, or being fetched.
    is_waiting = row.state <= UrlState.CLAIMED and row.due_at > now
    return FetchJobState(
        jid=jid,
        state="waiting" if is_waiting else _NAMES.get(row.state, DEAD),
        url=row.url,
        until=datetime.fromtimestamp(row.due_at, UTC) if is_waiting else None,
        status=row.status,
        reason=_reason(row),
        attempts=row.attempts,
        updated_at=datetime.fromtimestamp(row.updated_at, UTC),
    )


def _reason(row: JobRow) -> str:
    if row.state is UrlState.SAME:
        return f"the same as {row.reason}"
    return row.reason if row.state in _NAMES else cause_of(row.state, row.reason)
