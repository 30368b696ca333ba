"""The entry point of a child process: from the parent's settings to an exit code."""

import asyncio
import gc
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import uvloop

from manyhands.shared.errors import ConfigError, ConnectFailed, ManyhandsError
from manyhands.shared.logs import configure_logs, tell_end
from manyhands.shared.memory import give_back_large_blocks, keep_free_memory
from manyhands.shared.settings import Settings
from manyhands.shared.taken_output import take_in_output
from manyhands.worker.process.fork_safety import leave_the_parent
from manyhands.worker.process.handler_modules import load_handlers
from manyhands.worker.process.process import THREAD_NAME, WorkerProcess
from manyhands.worker.service import exits
from manyhands.worker.service.held_jobs import HeldJobs
from manyhands.worker.service.stages import ProcessGroup

# New objects between two collections of the youngest; Python's own 700 is a millisecond's worth.
GC_THRESHOLD = 10_000
LAST_CANCEL_S = 0.5


@dataclass(slots=True, frozen=True)
class ChildSpec:
    """One child: its number in its group, how often it was restarted, its share of the service's
    connections, and the file of the jobs it holds, which are put back if it dies."""

    group: ProcessGroup
    number: int
    incarnation: int
    connections: int
    settings: Settings
    held: HeldJobs = field(default_factory=HeldJobs)

    @property
    def process_type(self) -> str:
        return self.group.name

    @property
    def process_id(self) -> str:
        return f"{self.group.name}-{self.number}"


def run_child(spec: ChildSpec, parent: Connection) -> None:
    """Work until stopped; ends the process."""
    leave_the_parent(parent)
    exit_code = _run(spec, parent)
    sys.stderr.flush()
    if any(thread.name.startswith(THREAD_NAME) for thread in threading.enumerate()):
        # Python would wait for a handler's thread that cannot be cancelled, maybe for ever.
        os._exit(exit_code)
    sys.exit(exit_code)


def _run(spec: ChildSpec, parent: Connection) -> int:
    settings = spec.settings
    configure_logs(
        settings.worker.log_level,
        service="worker",
        process_type=spec.process_type,
        process_id=spec.process_id,
    )
    take_in_output()
    try:
        load_handlers(settings.worker.handlers)
        _spare_the_garbage_collector()
        _interrupt_nobody()
        give_back_large_blocks()
        keep_free_memory()
        return uvloop.run(_work(spec, parent))
    except ManyhandsError as error:
        tell_end("worker", error)
        return exits.POINTLESS if _is_pointless(error) else exits.UNCLEAN


async def _work(spec: ChildSpec, parent: Connection) -> int:
    process = WorkerProcess(
        spec.settings, spec.group, spec.connections, parent, spec.held, spec.process_id
    )
    is_clean = await process.run()
    exit_code = exits.STOPPED_BY_SERVER if process.is_stopped_by_server else exits.CLEAN
    if not is_clean:
        exit_code = exits.UNCLEAN
    await _end_stubborn_tasks(exit_code)
    return exit_code


async def _end_stubborn_tasks(exit_code: int) -> None:
    """Otherwise the loop would wait for ever for a handler that ignores its cancellation. Its job
    was put back."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=LAST_CANCEL_S))[1]:
        sys.stderr.flush()
        os._exit(exit_code)


def _is_pointless(error: ManyhandsError) -> bool:
    if isinstance(error, ConnectFailed):
        return not error.is_retryable
    return isinstance(error, ConfigError)


def _interrupt_nobody() -> None:
    """An arriving answer need not preempt another process, maybe the server: a moment later one
    turn of the loop handles several. Saves a twentieth of the time of a small job when all
    processors are busy."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):  # where a sandbox forbids it, it is only slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _spare_the_garbage_collector() -> None:
    """What is loaded now stays for ever, and jobs by the thousand make no reference cycles: collect
    garbage less often, and not among what stays. Saves a tenth of the time of a small job."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
