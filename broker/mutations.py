"""MUTATE: many jobs of a set at once, chosen by a filter."""

import asyncio
from typing import Any

import msgspec
import orjson

from broker.manager import Manager
from broker.sets import MOVED_AT_ONCE


class Filter(msgspec.Struct):
    jids: list[str] | None = None
    regexp: str | None = None
    jobtype: str | None = None


class Mutation(msgspec.Struct):
    cmd: str = ""
    target: str = ""
    filter: Filter | None = None


async def mutate(manager: Manager, mutation: Mutation) -> None:
    """Kill, discard or requeue what matches. A large set takes many pages, and others have their
    turn between them."""
    sets, store = manager.sets, manager.store
    act = {"kill": sets.kill, "discard": sets.discard, "requeue": manager.requeue}[mutation.cmd]
    # What was asked before this command comes first; what its own work adds, it leaves alone.
    stored = asyncio.Event()
    store.batch.when_stored.append(stored.set)
    await stored.wait()
    where, parameters = _condition(mutation.filter)
    where, parameters = f"({where}) AND id <= ?", [*parameters, store.reader.last_set_id()]
    after = 0
    while rows := store.reader.find(
        mutation.target, where, parameters, after=after, limit=MOVED_AT_ONCE
    ):
        act(sets.without_leaving(rows))
        after = rows[-1].id
        await asyncio.sleep(0)


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
