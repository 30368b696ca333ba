"""What children need to know about queues and back-pressure. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from manyhands.shared.crawl.claim import are_fetch_queues
from manyhands.worker.service.link import Backlog, Pulse, Pushed, SlowSink, StageReport


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
    slow_sink: SlowSink | None = None,
) -> Backlog | None:
    """The message to a child with these stages; None when it would change nothing: it has one stage
    at full pace, and was not `told` otherwise before, and no sink is slow."""
    its_paces = {stage.name: paces.get(stage.name, 1.0) for stage in stages}
    is_slowed = any(pace < 1 for pace in its_paces.values())
    was_slowed = any(told.get(name, 1.0) != pace for name, pace in its_paces.items())
    if len(stages) < 2 and not is_slowed and not was_slowed and slow_sink is None:
        return None
    queues = {name: sizes.get(name, 0) for stage in stages for name in stage.queues}
    takes_fetch_jobs = any(are_fetch_queues(stage.queues) for stage in stages)
    its_fetch_queues = list(fetch_queues) if takes_fetch_jobs else []
    return Backlog(queues, its_paces, its_fetch_queues, slow_sink)


def slowest_sink(turns: Iterable[Pulse]) -> SlowSink | None:
    slow = [turn.slow_sink for turn in turns if turn.slow_sink is not None]
    return max(slow, key=lambda sink: sink.wait_s, default=None)


def mean_bytes_by_queue(turns: Iterable[Pulse]) -> dict[str, float]:
    """The mean size of the jobs that the children have pushed to each queue."""
    totals: dict[str, Pushed] = {}
    for turn in turns:
        for queue, pushed in turn.pushed.items():
            before = totals.get(queue, Pushed())
            totals[queue] = Pushed(before.jobs + pushed.jobs, before.bytes + pushed.bytes)
    return {queue: total.bytes / total.jobs for queue, total in totals.items() if total.jobs}
