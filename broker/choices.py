"""Which jobs of a set are meant, as SQL says it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Choice:
    """A condition on rows of `sets`, and its parameters."""

    where: str = "1"
    parameters: tuple[Any, ...] = ()

    def up_to(self, row_id: int) -> "Choice":
        return Choice(f"({self.where}) AND id <= ?", (*self.parameters, row_id))


EVERY_JOB = Choice()


def due_by(wall: float) -> Choice:
    return Choice("at <= ?", (wall,))


def with_ids(ids: Sequence[int]) -> Choice:
    return Choice("id IN (SELECT value FROM json_each(?))", (orjson.dumps(ids).decode(),))


def with_jids(jids: Sequence[str | None]) -> Choice:
    return Choice("jid IN (SELECT value FROM json_each(?))", (orjson.dumps(jids).decode(),))


def like(pattern: str | None, jobtype: str | None) -> Choice:
    """`pattern` is one of Redis, for the job as a whole."""
    conditions, parameters = ["1"], []
    if pattern:
        conditions.append("CAST(payload AS TEXT) GLOB ?")
        parameters.append(glob(pattern))
    if jobtype:
        conditions.append("jobtype = ?")
        parameters.append(jobtype)
    return Choice(" AND ".join(conditions), tuple(parameters))


def glob(pattern: str) -> str:
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
