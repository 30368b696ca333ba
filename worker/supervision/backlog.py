"""What children need to know about queues and back-pressure. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from manyhands.shared.crawl.claim import are_fetch_queues
from manyhands.worker.service.link import Backlog, Pulse, Pushed, StageReport


def watched_queues(stages: Iterable[StageReport]) -> set[str]:
    """Those that the stages fetch from, and those that they fill."""
    names: set[str] = set()
    for stage in stages:
        names.update(stage.queues)
        if stage.feeds:
            names.add(stage.feeds)
    return names


def backlog_of(
    stages: Sequence[StageReport],
    sizes: Mapping[str, int],
    paces: Mapping[str, float],
    told: Mapping[str, float],
    fetch_queues: Sequence[str] = (),
) -> Backlog | None:
    """The message to a child with these stages; None when it would change nothing: it has one stage
    at full pace, and was not `told` otherwise before."""
    its_paces = {stage.name: paces.get(stage.name, 1.0) for stage in stages}
    is_slowed = any(pace < 1 for pace in its_paces.values())
    was_slowed = any(told.get(name, 1.0) != pace for name, pace in its_paces.items())
    if len(stages) < 2 and not is_slowed and not was_slowed:
        return None
    queues = {name: sizes.get(name, 0) for stage in stages for name in stage.queues}
    takes_fetch_jobs = any(are_fetch_queues(stage.queues) for stage in stages)
    return Backlog(queues, its_paces, list(fetch_queues) if takes_fetch_jobs else [])


def mean_bytes_by_queue(turns: Iterable[Pulse]) -> dict[str, float]:
    """The mean size of the jobs that the children have pushed to each queue."""
    totals: dict[str, Pushed] = {}
    for turn in turns:
        for queue, pushed in turn.pushed.items():
            before = totals.get(queue, Pushed())
            totals[queue] = Pushed(before.jobs + pushed.jobs, before.bytes + pushed.bytes)
    return {queue: total.bytes / total.jobs for queue, total in totals.items() if total.jobs}
