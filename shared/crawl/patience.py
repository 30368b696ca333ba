"""How long a crawl keeps trying a host that is unreachable or asks to be left alone, and what is
noted about such a host. Pure."""

from typing import NamedTuple

import orjson

from manyhands.shared.crawl.spec import DEFAULT_DEPTH, CrawlSpec, LimitSpec


class Trouble(NamedTuple):
    """Why an origin is left alone, and when its trouble began."""

    reason: str
    since: float


def has_limit(spec: CrawlSpec) -> bool:
    """A crawl with a limit wants a part of the web, and soon: it has less patience."""
    scope = spec.scope
    is_shallow = scope.within == "seeds" or scope.max_depth < DEFAULT_DEPTH
    return spec.limits != LimitSpec() or is_shallow


def patience_s(spec: CrawlSpec, *, limited_s: float, unlimited_s: float) -> float:
    own_s = spec.politeness.patience_s
    if own_s is not None:
        return own_s
    return limited_s if has_limit(spec) else unlimited_s


def trouble_of(notes: bytes) -> Trouble | None:
    """From the notes of a `StoredOrigin`; None if it has no trouble, or unreadable notes."""
    try:
        found = orjson.loads(notes)
        trouble = Trouble(str(found["trouble"]), float(found["trouble_since"]))
    except (ValueError, TypeError, LookupError):
        return None
    return trouble if trouble.reason else None
