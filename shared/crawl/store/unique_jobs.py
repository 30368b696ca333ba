"""Which of the unique fetch jobs that come are the same as an earlier one, and so not fetched."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from manyhands.shared.crawl.fetch_jobs import key_of
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import FirstJob, NewJob, NewUrl, Unique
from manyhands.shared.crawl.store.rows import ShardRows

# Redirects that a job may lead through: the most that FETCH_MAX_REDIRECTS allows.
MOST_HOPS = 50


@dataclass(slots=True)
class Decided:
    """Those to be fetched; those that are the same as a job, by its id, and their places among all
    that came; and what is to be kept of the first."""

    fetched: list[NewUrl] = field(default_factory=list)
    same: dict[str, list[NewUrl]] = field(default_factory=dict)
    places: set[int] = field(default_factory=set)
    firsts: list[FirstJob] = field(default_factory=list)


def decide(rows: ShardRows, jobs: Sequence[NewJob], now: float) -> Decided:
    """Only about the unique ones of these jobs. One that was here before is left as it is, also if
    all but its place as the first is forgotten."""
    unique = [(place, job.url, job.unique) for place, job in enumerate(jobs) if job.unique]
    keys = [url.key for _, url, _ in unique]
    known = {keys[place] for place in rows.known(NO_CRAWL, keys)}
    firsts = _firsts(rows, [asked for _, _, asked in unique])
    changed: dict[str, FirstJob] = {}
    decided = Decided()
    for place, url, asked in unique:
        first = firsts.get(asked.url_key)
        if url.key in known or (first is not None and key_of(first.job, first.turn, 0) == url.key):
            continue
        known.add(url.key)
        if first is not None and is_same(asked, first, now):
            decided.same.setdefault(first.job, []).append(url._replace(job=""))
            decided.places.add(place)
        else:
            decided.fetched.append(url)
            firsts[asked.url_key] = changed[asked.url_key] = FirstJob(
                asked.url_key, url.domain, asked.job, asked.turn, now, now + asked.for_s
            )
    decided.firsts += changed.values()
    return decided


def is_same(asked: Unique, first: FirstJob, now: float) -> bool:
    """A job that is requeued is not the same as itself."""
    is_young = now < first.until and now - first.admitted_at < asked.for_s
    return is_young and asked.job != first.job


def _firsts(rows: ShardRows, unique: Sequence[Unique]) -> dict[str, FirstJob]:
    """By URL, without those that came to nothing."""
    firsts = rows.first_jobs(list({asked.url_key for asked in unique}))
    states = _states(rows, [(first, 0) for first in firsts])
    redirected = [
        first for first, state in zip(firsts, states, strict=True) if state is UrlState.REDIRECTED
    ]
    ends = {first.url_key: state for first, state in zip(firsts, states, strict=True)}
    for first in redirected:
        hops = _states(rows, [(first, hop) for hop in range(1, MOST_HOPS + 1)])
        here = [state for state in hops if state is not None]
        if here:
            ends[first.url_key] = here[-1]
    return {first.url_key: first for first in firsts if not _is_nothing(ends[first.url_key])}


def _states(rows: ShardRows, places: Sequence[tuple[FirstJob, int]]) -> list[UrlState | None]:
    """Of the URLs of these jobs after so many redirects; None: this shard does not have it."""
    if not places:
        return []
    keys = [key_of(first.job, first.turn, hop) for first, hop in places]
    found = {place: UrlState(state) for place, _, state, *_ in rows.of_keys(NO_CRAWL, keys)}
    return [found.get(place) for place in range(len(places))]


def _is_nothing(state: UrlState | None) -> bool:
    return state is not None and state > UrlState.REDIRECTED
