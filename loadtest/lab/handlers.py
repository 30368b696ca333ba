"""The jobs of the benchmarks, for our own worker: WORKER_HANDLERS=loadtest.lab.handlers."""

import asyncio
import socket
import time

from loadtest.lab.burning import burn
from manyhands import job

_stamps = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


@job("bench_noop")
async def noop(n: int) -> None:
    """Do nothing, so that only the consumer itself is measured."""


@job("bench_sleep")
async def sleep(n: int, ms: int) -> None:  # noqa: ARG001 - as above
    """Wait like a job that waits for the network."""
    await asyncio.sleep(ms / 1000)


@job("bench_burn")
async def compute(n: int) -> None:  # noqa: ARG001 - as above
    """Keep a processor busy, and so the loop."""
    burn()


@job("bench_stamp")
async def stamp(n: int, port: int) -> None:
    """Tell whoever listens on this port of the loopback when the job began; ns, monotonic."""
    began_ns = time.monotonic_ns()
    _stamps.sendto(f"{n} {began_ns}".encode(), ("127.0.0.1", port))
