"""How many slots a wanted rate needs, and what rate slots can give: Little's law. Pure.

A slot is taken from the FETCH that is sent for it to the end of the handler: one round trip and the
job itself. The acknowledgement holds no slot here. A client that frees a slot only when its ACK is
answered pays the round trip twice, and needs a socket for each slot besides.

`manyhands worker size` applies it, `make bench-network` holds it against what is measured.
"""

import math
from dataclasses import dataclass

# Under load, a worker gathers lines for this long: a system call for each would cost more, there,
# in the network and at the server, than the work itself.
GATHER_S = 0.005
# Jobs do not all take the mean, and a path is not always the same.
HEADROOM = 1.2
BYTES_PER_BUSY_SLOT = 4096


@dataclass(slots=True, frozen=True)
class Size:
    """What to run; `classic_slots` is what a client with one socket per slot would need."""

    slots: int
    classic_slots: int
    memory_bytes: int


def slots_for(jobs_per_s: float, round_trip_s: float, job_s: float) -> Size:
    ours = jobs_per_s * slot_s(round_trip_s, job_s)
    classic = jobs_per_s * classic_slot_s(round_trip_s, job_s)
    slots = math.ceil(ours * HEADROOM)
    return Size(slots, math.ceil(classic * HEADROOM), slots * BYTES_PER_BUSY_SLOT)


def slot_s(round_trip_s: float, job_s: float) -> float:
    """How long a job takes up a slot."""
    return round_trip_s + GATHER_S + job_s


def classic_slot_s(round_trip_s: float, job_s: float) -> float:
    """As `slot_s`, for a client with one socket per slot."""
    return 2 * round_trip_s + job_s
