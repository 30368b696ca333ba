"""The clock that leases live on: the same for all processes of a machine, and never set back."""

import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """Seconds of the monotonic clock, which begins anew with every boot of the machine."""

    boot: str
    at: float


def moment() -> Moment:
    return Moment(_boot(), time.monotonic())


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        # Not Linux: a lease from before a boot ends by its time.
        return ""
