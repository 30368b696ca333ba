"""MUTATE: many jobs of a set at once, chosen by a filter."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial

import msgspec

from manyhands.broker.batches import SetRow
from manyhands.broker.choices import EVERY_JOB, Choice, glob, like, with_ids, with_jids
from manyhands.broker.damage import is_damage
from manyhands.broker.jobs import Refused
from manyhands.broker.manager import Manager
from manyhands.broker.reading import SET_PAGE_BYTES
from manyhands.broker.sets import MOVED_AT_ONCE
from manyhands.broker.store import Store

# Longer ones SQLite refuses, or takes minutes for a single large job.
MAX_PATTERN_BYTES = 1024
FOUND_AT_ONCE = 10_000


class Filter(msgspec.Struct):
    jids: list[str | None] | None = None
    regexp: str | None = None
    jobtype: str | None = None


class Mutation(msgspec.Struct):
    cmd: str | None = None
    target: str | None = None
    filter: Filter | None = None


def check_pattern(mutation: Mutation) -> None:
    """Raises Refused for a pattern that would be too much to match."""
    pattern = mutation.filter.regexp if mutation.filter and not mutation.filter.jids else None
    if pattern and len(glob(pattern).encode()) > MAX_PATTERN_BYTES:
        raise Refused(f"the pattern is too complex: it may have {MAX_PATTERN_BYTES} bytes at most")


async def mutate(manager: Manager, mutation: Mutation) -> None:
    """Kill, discard or requeue what matches. A large set takes many pages, and others have their
    turn between them; what matches is found in a thread, for a pattern may take long."""
    assert mutation.cmd and mutation.target
    sets, store = manager.sets, manager.store
    act = {"kill": sets.kill, "discard": sets.discard, "requeue": manager.requeue}[mutation.cmd]
    # What was asked before this command comes first; what its own work adds, it leaves alone.
    await _stored(manager)
    chosen = _chosen(mutation.filter).up_to(store.reader.last_set_id())
    find = partial(_found, store, mutation.target, chosen)
    after = 0
    try:
        while ids := await asyncio.to_thread(find, after):
            for first in range(0, len(ids), MOVED_AT_ONCE):
                page = with_ids(ids[first : first + MOVED_AT_ONCE])
                await _act_on(manager, mutation.target, act, page)
            after = ids[-1]
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        # Around what is damaged, row by row.
        await _act_on(manager, mutation.target, act, chosen)


def _found(store: Store, target: str, chosen: Choice, after: int) -> list[int]:
    with contextlib.closing(store.open_reader()) as reader:
        return reader.find_ids(target, chosen, after=after, limit=FOUND_AT_ONCE)


async def _act_on(
    manager: Manager, target: str, act: Callable[[list[SetRow]], None], chosen: Choice
) -> None:
    """Page by page, and each is stored before the next is read."""
    after, has_more = 0, True
    while has_more:
        page = manager.store.reader.find(
            target, chosen, after=after, limit=MOVED_AT_ONCE, max_bytes=SET_PAGE_BYTES
        )
        has_more = page.has_more and bool(page.rows)
        act(manager.sets.without_leaving(page.rows))
        if has_more:
            after = page.rows[-1].id
        await _stored(manager)


async def _stored(manager: Manager) -> None:
    stored = asyncio.Event()
    manager.store.batch.when_stored.append(stored.set)
    await stored.wait()


def _chosen(by: Filter | None) -> Choice:
    """As Faktory: jids alone if there are any, else the pattern and the type."""
    if by is None:
        return EVERY_JOB
    return with_jids(by.jids) if by.jids else like(by.regexp, by.jobtype)
