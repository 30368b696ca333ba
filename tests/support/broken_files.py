"""Damage to a broker's database, always the same for the same seed, and what it destroys."""

import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from manyhands.broker.schema import PAGE_BYTES


@dataclass
class Content:
    """The leaves and overflow pages of the table of jobs, and the jids of jobs that have a part on
    a page."""

    leaves: list[int] = field(default_factory=list)
    overflow: list[int] = field(default_factory=list)
    jids: dict[int, set[str]] = field(default_factory=dict)


def content_of(path: Path) -> Content:
    """Of a sound database that was closed; by SQLite, not by code that is to be tested."""
    content = Content()
    with closing(sqlite3.connect(path)) as database:
        keys = dict(database.execute("SELECT key, payload FROM jobs"))
        pages = database.execute(
            "SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name = 'jobs' ORDER BY path"
        ).fetchall()
    jids = iter([orjson.loads(keys[key])["jid"] for key in sorted(keys)])
    by_path: dict[str, list[str]] = {}
    for place, page, kind, cells in pages:
        if kind == "leaf":
            content.leaves.append(page)
            # In the order of their keys, as the paths are.
            by_path[place] = [next(jids) for _ in range(cells)]
            content.jids[page] = set(by_path[place])
    for place, page, kind, _ in pages:
        if kind == "overflow":
            content.overflow.append(page)
            # The leaf, the number of the cell in it, and the number of the page of that cell.
            cell = place.partition("+")[0]
            content.jids[page] = {by_path[cell[:-3]][int(cell[-3:], 16)]}
    return content


def flip(path: Path, pages: list[int], count: int, seed: int) -> None:
    """So many bytes in each of these pages become others."""
    chance = random.Random(seed)
    with path.open("r+b") as file:
        for page in pages:
            for _ in range(count):
                place = (page - 1) * PAGE_BYTES + chance.randrange(PAGE_BYTES)
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ chance.randrange(1, 256)]))


def overwrite(path: Path, pages: list[int], seed: int) -> None:
    chance = random.Random(seed)
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE_BYTES)
            file.write(chance.randbytes(PAGE_BYTES))
