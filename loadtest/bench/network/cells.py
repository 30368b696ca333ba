"""What `bench-network` measures, and what the sizing formula says to it. Pure.

Jobs of 100 ms, so that both are visible: the slots' limit, which the formula gives, and the
server's, which it does not know.
"""

from loadtest.lab.cells import KINDS, Cell
from manyhands.shared.sizing import classic_slot_s, slot_s

KIND = "100ms"
# Short, so that there is time for many of them.
RUN_S = 3.5
# By name of the consumer; each drains the server that its title says.
CONTENDERS = {
    "ours": "Manyhands, Faktory",
    "on_broker": "Manyhands, broker",
    "rust": "Rust crate, Faktory",
}
ONE_SOCKET_PER_SLOT = {"rust"}

# Every distance with as many slots as a worker has by default, and the long ones with more; all of
# it in less than ten minutes.
NETWORK = (
    *(Cell(KIND, rtt_ms, 500, RUN_S) for rtt_ms in (0, 10, 50, 200)),
    *(Cell(KIND, rtt_ms, 2000, RUN_S) for rtt_ms in (50, 200)),
)


def parse_network_cells(text: str) -> tuple[Cell, ...]:
    """Read `50/500,200/2000`; raises ValueError with the wrong word in it."""
    cells = []
    for word in text.split(","):
        rtt, _, slots = word.strip().partition("/")
        if not rtt.isdecimal() or not slots.isdecimal() or int(slots) < 1:
            raise ValueError(f"{word!r} is not RTT_MS/SLOTS")
        cells.append(Cell(KIND, int(rtt), int(slots), RUN_S))
    return tuple(cells)


def predicted_jobs_per_s(cell: Cell, contender: str, slots: int) -> float:
    """Return what so many slots can do by the formula, however fast the server is."""
    formula = classic_slot_s if contender in ONE_SOCKET_PER_SLOT else slot_s
    return slots / formula(cell.rtt_ms / 1000, KINDS[cell.kind] / 1000)
