"""For how long a crawl tries a host that cannot be reached or wants to be left alone, and what is
said of such a host. Pure."""

from typing import NamedTuple

import orjson

from manyhands.shared.crawl.spec import DEFAULT_DEPTH, CrawlSpec, LimitSpec


class Trouble(NamedTuple):
    """Why an origin is left alone, and since when nothing but trouble came from it."""

    reason: str
    since: float


def has_limit(spec: CrawlSpec) -> bool:
    """Whoever asks for a part of the web wants to have it soon."""
    scope = spec.scope
    is_shallow = scope.within == "seeds" or scope.max_depth < DEFAULT_DEPTH
    return spec.limits != LimitSpec() or is_shallow


def patience_s(spec: CrawlSpec, *, limited_s: float, unlimited_s: float) -> float:
    own_s = spec.politeness.patience_s
    if own_s is not None:
        return own_s
    return limited_s if has_limit(spec) else unlimited_s


def trouble_of(notes: bytes) -> Trouble | None:
    """From the notes of a `StoredOrigin`; None: it has none, or it cannot be read."""
    try:
        found = orjson.loads(notes)
        trouble = Trouble(str(found["trouble"]), float(found["trouble_since"]))
    except (ValueError, TypeError, LookupError):
        return None
    return trouble if trouble.reason else None
