"""Facts of the control store about copies: states that no service may use, because they are not
complete or were copied elsewhere, and the tag of the original. Pure."""

from collections.abc import Mapping
from enum import IntEnum

from manyhands.shared.crawl.store.errors import StateClosed

CLOSED = "closed"
# The tag of the store that it is a copy of: it goes on under that.
KNOWN_AS = "known_as"


class Closed(IntEnum):
    """ARRIVES: not all of it is here. IS_WHOLE: all is, and the original still has to be closed.
    HAS_LEFT: its crawls go on elsewhere."""

    ARRIVES = 1
    IS_WHOLE = 2
    HAS_LEFT = 3


def refusal(closed: int, shown: str) -> StateClosed:
    if closed == Closed.HAS_LEFT:
        return StateClosed(
            f"the crawls of {shown} were copied to another place and go on there: set CRAWL_STATE"
            " to it"
        )
    return StateClosed(
        f"{shown} is a copy that was not finished: repeat the command `manyhands state copy`"
    )


def tag_in(facts: Mapping[str, int]) -> str:
    """As it stands in the names of queues."""
    return f"{facts.get(KNOWN_AS, facts['tag']):010x}"


def refuse_closed(facts: Mapping[str, int], shown: str) -> None:
    """Raises StateClosed."""
    if closed := facts.get(CLOSED):
        raise refusal(closed, shown)
