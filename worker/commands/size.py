"""`manyhands worker size`: how many slots, with the round trip measured to the real server."""

import argparse
import asyncio
import statistics
import time

from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.settings import FaktorySettings
from manyhands.shared.settings.options import add_settings
from manyhands.shared.sizing import Size, slots_for
from manyhands.worker.source.lane_plan import SERVER_CONNECTIONS, plan_broker_lanes, plan_lanes

SAMPLES = 15
MOST_SLOTS_OF_A_PROCESS = 10_000


def add_size_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    size = commands.add_parser(
        "size",
        usage="%(prog)s --rate JOBS --job-ms MS [options]",
        help="how many slots a given rate needs",
        description="Measure the round trip to FAKTORY_URL and print how many slots you need.",
    )
    size.add_argument("--rate", type=_positive, required=True, help="jobs per second you want")
    size.add_argument("--job-ms", type=_positive, required=True, help="average duration of a job")
    size.add_argument(
        "--round-trip-ms", type=_positive, help="use this instead of measuring (needs no server)"
    )
    add_settings(size, ("faktory",))


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


async def run_size(arguments: argparse.Namespace, faktory: FaktorySettings) -> str:
    """What to print."""
    is_broker = False
    if arguments.round_trip_ms is None:
        round_trip_s, is_broker = await _measure(faktory)
        source = f"measured to {parse_url(faktory.url)}, median of {SAMPLES}"
    else:
        round_trip_s, source = arguments.round_trip_ms / 1000, "given"
    size = slots_for(arguments.rate, round_trip_s, arguments.job_ms / 1000)
    plan = (
        plan_broker_lanes(faktory.connections, size.slots)
        if is_broker
        else plan_lanes(faktory.connections, size.slots, 0)
    )
    return _text(arguments, round_trip_s, source, size, plan.connections)


async def _measure(faktory: FaktorySettings) -> tuple[float, bool]:
    """The round trip, and whether our broker is at the other end."""
    times: list[float] = []
    async with Client(parse_url(faktory.url), ca_file=faktory.ca_file) as client:
        for _ in range(SAMPLES):
            started_at = time.perf_counter()
            await client.queue_latency(["default"])
            times.append(time.perf_counter() - started_at)
        return statistics.median(times), client.is_our_broker


def _text(
    arguments: argparse.Namespace, round_trip_s: float, source: str, size: Size, sockets: int
) -> str:
    processes = -(-size.slots // MOST_SLOTS_OF_A_PROCESS)
    lines = [
        f"round trip           {round_trip_s * 1000:.2f} ms ({source})",
        f"job                  {arguments.job_ms:g} ms",
        f"WORKER_CONCURRENCY   {size.slots}"
        + (f" in all: {processes} worker processes" if processes > 1 else ""),
        f"sockets              {sockets * processes} (one per slot would be {size.classic_slots})",
        f"memory of busy slots {size.memory_bytes / 2**20:.0f} MiB, and what the jobs hold",
    ]
    if size.classic_slots > SERVER_CONNECTIONS:
        lines.append(f"a socket per slot is out of reach: Faktory takes {SERVER_CONNECTIONS:,}")
    return "\n".join(lines) + "\n"


def size_command(arguments: argparse.Namespace, faktory: FaktorySettings) -> str:
    return asyncio.run(run_size(arguments, faktory))
