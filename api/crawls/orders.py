"""Pause, resume, cancel: the change of state each asks for, and the crawls that allow it. Pure but
for the store, whose thread calls it."""

from enum import StrEnum

from manyhands.api.problems import Problem
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Crawl
from manyhands.shared.crawl.store.protocol import ControlStore

# Attempts, in case workers change its state meanwhile; they rarely do.
MOST_TRIES = 10
CANCELLED_BECAUSE = "cancelled by the operator"


class CrawlAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


# The states in which there is nothing left to do.
_DONE: dict[CrawlAction, tuple[CrawlState, ...]] = {
    CrawlAction.PAUSE: (CrawlState.PAUSED,),
    CrawlAction.RESUME: (CrawlState.STARTING, CrawlState.RUNNING),
    CrawlAction.CANCEL: (CrawlState.STOPPING,),
}


def carry_out(control: ControlStore, crawl: int, action: CrawlAction, now: float) -> Crawl:
    """The crawl as it is then. Raises Problem, NoSuchCrawl."""
    for _ in range(MOST_TRIES):
        found = control.crawl(crawl)
        if found.state in _DONE[action]:
            return found
        refuse_if_ending(found)
        if _change(control, found, action, now):
            return control.crawl(crawl)
    raise Problem(503, f"crawl {crawl} changes too fast to be changed", {}, 1)


def refuse_if_ending(crawl: Crawl) -> None:
    """Raises Problem."""
    if crawl.state.is_final or crawl.state is CrawlState.STOPPING:
        said = "has ended" if crawl.state.is_final else "is ending"
        raise Problem(409, f"crawl {crawl.id} {said}: {crawl.state}", {"state": crawl.state})


def _change(control: ControlStore, crawl: Crawl, action: CrawlAction, now: float) -> bool:
    expected = (crawl.state,)
    match action:
        case CrawlAction.PAUSE:
            return control.change_state(crawl.id, expected, CrawlState.PAUSED, now)
        case CrawlAction.RESUME:
            # Its seeds may not all have been taken when it was paused.
            is_started = crawl.started_at is not None
            state = CrawlState.RUNNING if is_started else CrawlState.STARTING
            return control.change_state(crawl.id, expected, state, now)
        case CrawlAction.CANCEL:
            return control.change_state(
                crawl.id,
                expected,
                CrawlState.STOPPING,
                now,
                reason=CANCELLED_BECAUSE,
                ends_as=CrawlState.CANCELLED,
            )
