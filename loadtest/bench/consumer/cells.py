"""What `bench-consumer` measures: which kinds of jobs, round trips and slots. Pure."""

from itertools import product

from loadtest.lab.cells import KINDS, Cell

RTTS_MS = (0, 50)
SLOTS = (50, 500, 1000, 1900, 8000)
CORE = (
    Cell("noop", 0, 500),
    Cell("noop", 0, 1000),
    Cell("noop", 50, 1000),
    Cell("100ms", 50, 1000),
    Cell("1s", 50, 8000),
)
FULL = tuple(Cell(kind, rtt, slots) for kind, rtt, slots in product(KINDS, RTTS_MS, SLOTS))


def parse_cells(text: str) -> tuple[Cell, ...]:
    """Read `noop/50/1000,1s/50/8000`; raises ValueError with the wrong word in it."""
    cells = []
    for word in text.split(","):
        kind, _, rest = word.strip().partition("/")
        rtt, _, slots = rest.partition("/")
        if kind not in KINDS or not rtt.isdecimal() or not slots.isdecimal() or int(slots) < 1:
            raise ValueError(f"{word!r} is not KIND/RTT_MS/SLOTS with a kind of {', '.join(KINDS)}")
        cells.append(Cell(kind, int(rtt), int(slots)))
    return tuple(cells)
