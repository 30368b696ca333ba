"""What `bench-state` measures: writers that share a file or do not, costs, and many seen URLs.
Pure."""

WRITERS = (1, 2, 4)
WRITE_S = 4.0
ONE_FILE, OWN_FILE = "one", "own"
LAYOUTS = {ONE_FILE: "one file for all", OWN_FILE: "a file each"}
COST_URLS = 200_000
# For each shard, in a round.
SEEN_BATCHES = 12


def cells(seen: int) -> list[str]:
    shared = [f"writers/{number}/{layout}" for number in WRITERS for layout in LAYOUTS]
    return [*shared, "costs", f"seen/{seen}"]


def kind_of(cell: str) -> str:
    return cell.partition("/")[0]


def title_of(cell: str) -> str:
    kind, _, rest = cell.partition("/")
    if kind == "writers":
        number, _, layout = rest.partition("/")
        return f"{number} {'process' if number == '1' else 'processes'}, {LAYOUTS[layout]}"
    return f"{int(rest):,} seen URLs" if kind == "seen" else "one process"
