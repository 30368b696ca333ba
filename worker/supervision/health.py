"""Is the service alive, and is it ready? Pure: the supervisor's status in, reasons out.

It is not alive when a restart of the whole service would help. The supervisor itself replaces a
child that hangs, and a server that is away comes back without our doing.
"""

from dataclasses import dataclass, field

from manyhands.worker.supervision.status import ChildState, ChildStatus, ServiceStatus

# A lane that owes an answer is closed after 12 s (shared/faktory/lanes.py); five times as long
# means that this does not work any more.
MOST_FETCH_SILENCE_S = 60.0
NOT_RUNNING = (ChildState.HUNG, ChildState.WAITING, ChildState.STOPPED)


@dataclass(slots=True, frozen=True)
class Verdict:
    """`reasons` say why not; empty when all is well. Damaged shards hold up only their crawls: they
    are listed, but are not a reason."""

    reasons: list[str] = field(default_factory=list)
    damaged_shards: list[str] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        return not self.reasons


def liveness(status: ServiceStatus) -> Verdict:
    """A busy child (its loop does not turn, but it computes) is alive, and so is a service without
    a server. One that is stopping ends by itself."""
    if status.is_stopping:
        return Verdict()
    reasons = [reason for child in status.children for reason in _ailments(child)]
    if status.children and all(child.state in NOT_RUNNING for child in status.children):
        reasons.append("no child runs")
    return Verdict(reasons)


def readiness(status: ServiceStatus) -> Verdict:
    if status.is_stopping:
        return Verdict(["stopping"])
    if status.is_quiet:
        return Verdict(["quiet: it takes no more jobs"])
    if not status.children:
        return Verdict(["starting"])
    process_types = dict.fromkeys(child.process_type for child in status.children)
    missing = [
        f"{process_type}: {_why_not_ready(children)}"
        for process_type in process_types
        if not any(map(_is_ready, children := _of_type(status, process_type)))
    ]
    return Verdict(missing, list(status.damaged_shards))


def _ailments(child: ChildStatus) -> list[str]:
    name = f"{child.process_id} (pid {child.pid})"
    found = []
    if child.state == ChildState.HUNG:
        found.append(f"{name} hangs: its loop has not turned for {child.silence_s:.0f} s")
    if child.is_connected and child.fetch_silence_s > MOST_FETCH_SILENCE_S:
        found.append(
            f"{name} has waited for an answer to a FETCH for {child.fetch_silence_s:.0f} s"
        )
    return found


def _is_ready(child: ChildStatus) -> bool:
    return child.state == ChildState.READY and child.is_connected and not child.is_out_of_files


def _of_type(status: ServiceStatus, process_type: str) -> list[ChildStatus]:
    return [child for child in status.children if child.process_type == process_type]


def _why_not_ready(children: list[ChildStatus]) -> str:
    if any(child.is_out_of_files for child in children):
        return "it can open no more files or connections (ulimit -n)"
    if any(child.state == ChildState.READY for child in children):
        return "not connected to the server"
    states = dict.fromkeys(child.state for child in children)
    return f"no child is ready ({', '.join(states)})"
