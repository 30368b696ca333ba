"""What `bench-state` measures: writers that share a shard or do not, costs, and many seen URLs, in
SQLite files and in PostgreSQL. Pure."""

from collections.abc import Collection, Sequence

WRITERS = (1, 2, 4)
WRITE_S = 4.0
SQLITE, POSTGRES = "sqlite", "postgres"
KINDS = {SQLITE: "SQLite", POSTGRES: "PostgreSQL"}
ONE_SHARD, OWN_SHARD = "one", "own"
LAYOUTS = {ONE_SHARD: "one shard for all", OWN_SHARD: "a shard each"}
COST_URLS = 200_000
# For each shard, in a round.
SEEN_BATCHES = 12


MEASURES = ("writers", "costs", "seen")
MANY_WRITERS = f"writers/{POSTGRES}/{WRITERS[-1]}/{OWN_SHARD}"


def cells(seen: Sequence[int], measures: Collection[str] = MEASURES) -> list[str]:
    """What is measured, the kind of store, and the rest. `seen`: how many URLs are known."""
    shared = [
        f"writers/{kind}/{number}/{layout}"
        for kind in KINDS
        for number in WRITERS
        for layout in LAYOUTS
        # In PostgreSQL a shard is written by one owner; others would wait for the same rows.
        if (kind, layout) != (POSTGRES, ONE_SHARD)
    ]
    found = [
        *shared,
        *(f"costs/{kind}" for kind in KINDS),
        *(seen_cell(kind, number) for kind in KINDS for number in seen),
    ]
    return [cell for cell in found if kind_of(cell) in measures]


def seen_cell(store: str, seen: int) -> str:
    return f"seen/{store}/{seen}"


def kind_of(cell: str) -> str:
    return cell.partition("/")[0]


def store_of(cell: str) -> str:
    return cell.split("/")[1]


def title_of(cell: str) -> str:
    kind, store, *rest = cell.split("/")
    if kind == "writers":
        number, layout = rest
        processes = "process" if number == "1" else "processes"
        return f"{KINDS[store]}, {number} {processes}, {LAYOUTS[layout]}"
    return f"{KINDS[store]}, {int(rest[0]):,} seen URLs" if kind == "seen" else KINDS[store]
