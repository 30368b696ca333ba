"""MUTATE: many jobs of a set at once, chosen by a filter."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import orjson

from manyhands.broker.batches import SetRow
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
    if pattern and len(_glob(pattern).encode()) > MAX_PATTERN_BYTES:
        raise Refused(f"the pattern is too complex: it may have {MAX_PATTERN_BYTES} bytes at most")


async def mutate(manager: Manager, mutation: Mutation) -> None:
    """Kill, discard or requeue what matches. A large set takes many pages, and others have their
    turn between them; what matches is found in a thread, for a pattern may take long."""
    assert mutation.cmd and mutation.target
    sets, store = manager.sets, manager.store
    act = {"kill": sets.kill, "discard": sets.discard, "requeue": manager.requeue}[mutation.cmd]
    # What was asked before this command comes first; what its own work adds, it leaves alone.
    await _stored(manager)
    where, parameters = _condition(mutation.filter)
    where, parameters = f"({where}) AND id <= ?", [*parameters, store.reader.last_set_id()]
    find = partial(_found, store, mutation.target, where, parameters)
    after = 0
    try:
        while ids := await asyncio.to_thread(find, after):
            for first in range(0, len(ids), MOVED_AT_ONCE):
                listed = orjson.dumps(ids[first : first + MOVED_AT_ONCE]).decode()
                chosen = "id IN (SELECT value FROM json_each(?))"
                await _act_on(manager, mutation.target, act, chosen, [listed])
            after = ids[-1]
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        # Around what is damaged, row by row.
        await _act_on(manager, mutation.target, act, where, parameters)


def _found(store: Store, target: str, where: str, parameters: list[Any], after: int) -> list[int]:
    with contextlib.closing(store.open_reader()) as reader:
        return reader.find_ids(target, where, parameters, after=after, limit=FOUND_AT_ONCE)


async def _act_on(
    manager: Manager,
    target: str,
    act: Callable[[list[SetRow]], None],
    where: str,
    parameters: list[Any],
) -> None:
    """Page by page, and each is stored before the next is read."""
    after, has_more = 0, True
    while has_more:
        page = manager.store.reader.find(
            target, where, parameters, after=after, limit=MOVED_AT_ONCE, max_bytes=SET_PAGE_BYTES
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


def _condition(chosen: Filter | None) -> tuple[str, list[Any]]:
    """As Faktory: jids alone if there are any, else the pattern and the type."""
    if chosen is None:
        return "1", []
    if chosen.jids:
        return "jid IN (SELECT value FROM json_each(?))", [orjson.dumps(chosen.jids).decode()]
    conditions, parameters = ["1"], []
    if chosen.regexp:
        conditions.append("CAST(payload AS TEXT) GLOB ?")
        parameters.append(_glob(chosen.regexp))
    if chosen.jobtype:
        conditions.append("jobtype = ?")
        parameters.append(chosen.jobtype)
    return " AND ".join(conditions), parameters


def _glob(pattern: str) -> str:
    """Redis escapes by a backslash, SQLite by brackets."""
    result, position = "", 0
    while position < len(pattern):
        if pattern[position] == "\\" and position + 1 < len(pattern):
            position += 1
            result += f"[{pattern[position]}]"
        else:
            result += pattern[position]
        position += 1
    return result
