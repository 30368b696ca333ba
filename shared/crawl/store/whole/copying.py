"""A state brought to another place, of any kind and with any number of shards. It may be killed at
any time and repeated.

The copy becomes the store that the original was: it has its tag, so that the queues of the broker
go on with it, and its generation is a new one, as after a change of the number of shards. What the
last owners had claimed is queued again. The original is closed when the copy is whole: no service
uses it any more. In between nobody uses the copy, and whoever repeats the command finds out from
both how far it had come.
"""

import os
import socket
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Self

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.errors import StateBusy, StateError
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.protocol import Progress
from manyhands.shared.crawl.store.whole.closing import CLOSED, KNOWN_AS, Closed, refuse_closed
from manyhands.shared.crawl.store.whole.control_rows import copy_control
from manyhands.shared.crawl.store.whole.old_shard import OldShard, copy_all
from manyhands.shared.crawl.store.whole.protocol import WholeStore, facts_of, set_facts

_OWNER = "copy "
# Has all leases of a state that was copied elsewhere.
_NOBODY = "nobody"
# Renewed after every part. One that was killed is waited for so long.
LEASE_S = 5.0
_LOOK_S = 0.2
# How often what was changed through an API while the rows were copied is copied again.
_ATTEMPTS = 5
# Beyond the end of all clocks.
_FOR_GOOD = 1e300


@dataclass(frozen=True, slots=True)
class Copied:
    """`again` are the URLs that were in flight when the last owners went."""

    shards: int
    urls: int
    again: int


def copy_state(
    source: WholeStore, target: WholeStore, shards: int | None, on_progress: Progress
) -> Copied | None:
    """`shards` None: as many as the source has. None: it was done before. Raises StateError, with
    what to do."""
    if source.look() is None:
        raise StateError(f"there is no state in {source.shown}")
    with ExitStack() as opened:
        old, new = (opened.enter_context(_Side(store)) for store in (source, target))
        is_done = old.closed == Closed.HAS_LEFT and new.closed in (None, Closed.IS_WHOLE)
        if is_done and old.tag == new.tag:
            if new.closed is not None:
                # All but the last steps.
                new.store.clear(new.generation)
                new.open_to_services()
            return None
        refuse_closed(old.facts, source.shown)
        if "shards" not in old.facts:
            raise StateError(f"{source.shown} has no crawls yet: there is nothing to copy")
        _refuse_as_target(old, new)
        return _copied(old, new, shards or old.facts["shards"], on_progress)


class _CrawlsChanged(Exception):
    """Or what was ordered for them."""


class _Side:
    """One of the two. State: what is open of it, its facts as they were at first, and the leases
    that are held."""

    def __init__(self, store: WholeStore) -> None:
        self.store = store
        self.control, self.tables = store.open_control()
        # Of its clock against the monotonic one.
        self._ahead_s = clock.now() - time.monotonic()
        self.facts = facts_of(self.tables)
        self.epochs: dict[int, int] = {}
        self._owner = f"{_OWNER}{socket.gethostname()}.{os.getpid()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.control.leave(self._owner)

    @property
    def tag(self) -> int:
        return self.facts.get(KNOWN_AS, self.facts["tag"])

    @property
    def generation(self) -> int:
        return self.facts.get("generation", 0)

    def now(self) -> float:
        """On its own clock."""
        return time.monotonic() + self._ahead_s

    def ahead_of(self, other: "_Side") -> float:
        """Whole seconds: less says nothing."""
        return round(self._ahead_s - other._ahead_s)

    @property
    def closed(self) -> int | None:
        return self.facts.get(CLOSED)

    def set_facts(self, facts: Mapping[str, int]) -> None:
        with self.tables.transaction():
            set_facts(self.tables, facts)

    def open_to_services(self) -> None:
        with self.tables.transaction():
            self.tables.run("DELETE FROM @facts WHERE name = %s", (CLOSED,))

    def refuse_owners(self) -> None:
        """Raises StateBusy."""
        names = {member.name for member in self.control.members()}
        names |= {
            lease.owner
            for lease in self.control.leases()
            if lease.is_live and not lease.owner.startswith(_OWNER)
        }
        if names:
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise StateBusy(
                f"{self.store.shown} is in use by {min(names)}{others}: stop the workers first"
                " (one that was killed counts until its leases end, CRAWL_LEASE_S)"
            )

    def claim(self, shards: int) -> None:
        """All of them, after an earlier attempt that was killed, but not beside one that is under
        way. Raises StateBusy."""
        self.refuse_owners()
        until = time.monotonic() + LEASE_S + 1
        for shard in range(shards):
            while (epoch := self.control.claim_lease(shard, self._owner, LEASE_S)) is None:
                self.refuse_owners()
                if time.monotonic() > until:
                    raise StateBusy(f"another `manyhands state copy` is at {self.store.shown}")
                time.sleep(_LOOK_S)
                self.renew()
            self.epochs[shard] = epoch

    def renew(self) -> None:
        self.control.renew_leases(self._owner, self.epochs, LEASE_S)

    def leave_for_good(self, version: int) -> bool:
        """Close it, and let nobody have a lease who has opened it before. False, and nothing
        changes, when crawls were changed since that version. Raises StateBusy."""
        self.refuse_owners()
        try:
            with self.tables.transaction():
                # First, so that nobody claims one between the look and the end of this.
                self.tables.run("UPDATE @leases SET until = %s, owner = %s", (_FOR_GOOD, _NOBODY))
                epochs: dict[int, int] = dict(self.tables.ask("SELECT shard, epoch FROM @leases"))
                if not self.epochs.items() <= epochs.items():
                    raise StateBusy(f"a worker has begun to use {self.store.shown}: stop it first")
                if facts_of(self.tables)["version"] != version:
                    raise _CrawlsChanged
                set_facts(self.tables, {CLOSED: Closed.HAS_LEFT})
        except _CrawlsChanged:
            return False
        return True


def _refuse_as_target(old: _Side, new: _Side) -> None:
    if new.closed == Closed.ARRIVES or (new.closed and old.tag == new.tag):
        # Nothing of it is missing elsewhere.
        return
    if new.closed or new.tables.ask("SELECT 1 FROM @crawls LIMIT 1"):
        whose = "the same crawls" if old.tag == new.tag else "crawls of another state"
        raise StateError(f"{new.store.shown} has {whose}: name an empty place")


def _copied(old: _Side, new: _Side, shards: int, on_progress: Progress) -> Copied:
    old.claim(old.facts["shards"])
    if new.closed == Closed.HAS_LEFT:
        with new.tables.transaction():
            new.tables.run("UPDATE @leases SET until = 0")
    # As a lock: no two copies to one place.
    new.claim(1)
    new.set_facts({CLOSED: Closed.ARRIVES})
    new.store.clear(new.generation)
    generation = max(old.generation, new.generation) + 1
    again = _claimed(old)
    for crawl, number in again.items():
        # On the original: if this is killed, the next attempt finds nothing claimed.
        old.control.note(
            crawl,
            f"{number} URLs that were in flight are fetched again: the state was copied",
            old.now(),
        )

    def on_part(done: int, in_all: int) -> None:
        old.renew()
        new.renew()
        old.refuse_owners()
        on_progress(done, in_all)

    taken_over = _take_over(old, new.ahead_of(old))
    with new.store.new_generation(generation, shards) as new_shards:
        urls = copy_all(taken_over, new_shards, on_part)
    _copy_control_and_close(old, new, generation, shards)
    new.store.clear(generation)
    new.open_to_services()
    on_progress(urls, urls)
    return Copied(shards, urls, sum(again.values()))


def _claimed(old: _Side) -> Counter[int]:
    """URLs by crawl that their owners had in flight when they went; no crawls that had none."""
    found: Counter[int] = Counter()
    for shard in old.store.made_shards(old.generation):
        with old.store.opened_tables(old.generation, shard) as tables:
            rows = tables.ask(
                "SELECT crawl, value FROM @counters WHERE name = %s AND value > 0",
                (STATE_COUNTERS[UrlState.CLAIMED],),
            )
        found.update(dict(rows))
    return found


def _take_over(old: _Side, later_s: float) -> list[OldShard]:
    """From here on no earlier owner can change anything, and nothing is claimed."""
    made = old.store.made_shards(old.generation)
    for shard in made:
        old.store.take_over(old.generation, shard, old.epochs[shard], old.now())
        old.renew()
    opened = partial(old.store.opened_tables, old.generation)
    return [OldShard(shard, made, opened, later_s) for shard in made]


def _copy_control_and_close(old: _Side, new: _Side, generation: int, shards: int) -> None:
    most_ever = max(old.facts["most_ever"], new.facts.get("most_ever", 0))
    for _ in range(_ATTEMPTS):
        version = old.control.version()
        copy_control(old.tables, old.control, new.tables, new.control)
        new.set_facts({"most_ever": most_ever, "wanted": shards})
        new.control.finish_reshard(generation, shards)
        for crawl in new.control.live_crawls():
            text = f"copied from {old.store.shown} to {new.store.shown}, {shards} shards"
            new.control.note(crawl.id, text, new.now())
        new.set_facts({KNOWN_AS: old.tag, CLOSED: Closed.IS_WHOLE})
        if old.leave_for_good(version):
            return
    raise StateBusy(f"the crawls of {old.store.shown} are being changed: stop the API first")
