"""What a worker service runs: stages, in processes with a number of slots each. Pure.

A stage is one list of queues. Processes of one kind run one stage or several; several share the
slots of their process by weight (worker/source/scheduler.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from manyhands.shared.crawl.claim import are_fetch_queues, is_fetch_queue
from manyhands.shared.crawl.messages import ALL_CRAWL_QUEUES
from manyhands.shared.errors import ConfigError
from manyhands.shared.jobtypes import FETCH, JOB_TYPES, PARSE_QUEUE
from manyhands.shared.urls import FETCH_QUEUE

# fetch:2x500, or fetch+parse:2x500
GROUP = re.compile(r"(?P<stages>[^:\s]+):(?P<processes>\d+)[x×](?P<slots>\d+)")
MOST_PROCESSES = 512
MOST_SLOTS = 100_000
# The processes of a service that names no stages; its stage when it names its queues instead.
DEFAULT_GROUP = "worker"
# The queues that our own job types fill with their children.
FED_QUEUES = {FETCH: PARSE_QUEUE, "crawl": PARSE_QUEUE, "warc": PARSE_QUEUE}
# Slots of a stage in one process unless the settings say otherwise: each of these jobs has a busy
# thread and megabytes in hand. More of them would only take turns.
CAPS = {"warc": 4, "export": 2}
# The stage of a process that owns shards: its queues are those of the shards that it has.
CRAWL_STAGE = "crawl"
# Stages that only fetch pages.
FETCHING_STAGES = frozenset({FETCH, CRAWL_STAGE})
_NAMED_BY_QUEUE = {ALL_CRAWL_QUEUES: CRAWL_STAGE}
# Those of them that WORKER_QUEUES may name among others, by what it calls their queues.
_FEEDING = _NAMED_BY_QUEUE | {
    JOB_TYPES[name].queues: name for name in FED_QUEUES.keys() & JOB_TYPES.keys()
}
# What an owner of shards takes jobs from, by the stage.
_OWNED_QUEUES = {FETCH: f"{FETCH_QUEUE}.*", CRAWL_STAGE: ALL_CRAWL_QUEUES}
_OWNERS = {queues: name for name, queues in _OWNED_QUEUES.items()}


@dataclass(slots=True, frozen=True)
class Stage:
    """`queues` in the notation of WORKER_QUEUES; `cap` in slots of one process; `feeds` is the
    queue that its jobs fill, empty when they fill none. One with a higher `rank` gets only slots
    that those below leave."""

    name: str
    queues: str
    weight: int = 1
    cap: int = MOST_SLOTS
    feeds: str = ""
    rank: int = 0


@dataclass(slots=True, frozen=True)
class ProcessGroup:
    """Processes that are all alike. Without stage names they run every registered job type."""

    name: str
    processes: int
    slots: int
    stage_names: tuple[str, ...] = ()


def parse_groups(text: str) -> tuple[ProcessGroup, ...]:
    """Read WORKER_STAGES, `fetch:2x500 parse:1x80`."""
    groups = tuple(_parse_group(word) for word in text.replace(",", " ").split())
    names = [name for group in groups for name in group.stage_names]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"WORKER_STAGES names {name} twice")
    return groups


def _parse_group(word: str) -> ProcessGroup:
    found = GROUP.fullmatch(word)
    if found is None:
        raise ConfigError(
            f"WORKER_STAGES: {word!r} is not STAGE:PROCESSESxSLOTS, such as fetch:2x500"
        )
    names = tuple(found["stages"].split("+"))
    processes, slots = int(found["processes"]), int(found["slots"])
    if not all(names):
        raise ConfigError(f"WORKER_STAGES: {word!r} has a stage without a name")
    if not 1 <= processes <= MOST_PROCESSES or not 1 <= slots <= MOST_SLOTS:
        raise ConfigError(
            f"WORKER_STAGES: {word!r} must have 1 to {MOST_PROCESSES} processes "
            f"of 1 to {MOST_SLOTS} slots"
        )
    return ProcessGroup(found["stages"], processes, slots, names)


class StageOptions(Protocol):
    """A stage's entry in the settings file; None keeps the value of its job type."""

    @property
    def weight(self) -> int: ...

    @property
    def cap(self) -> int | None: ...

    @property
    def queues(self) -> str | None: ...

    @property
    def feeds(self) -> str | None: ...


def resolve_stages(
    group: ProcessGroup,
    queues: str,
    queues_by_type: Mapping[str, str],
    options: Mapping[str, StageOptions],
) -> tuple[Stage, ...]:
    """What the processes of a group run: the stages it names, else the queues that WORKER_QUEUES
    names (which must be right), else those of every registered job type."""
    if group.stage_names:
        if queues:
            raise ConfigError("WORKER_STAGES and WORKER_QUEUES both say what to run: use one")
        chosen = _choose(group.stage_names, queues_by_type, options)
    elif queues:
        return _stages_of_entries(queues, queues_by_type, options)
    else:
        chosen = _stages_of_queues(queues_by_type)
    return tuple(_with_options(stage, options.get(stage.name)) for stage in chosen)


def without_a_store(stages: tuple[Stage, ...], group: ProcessGroup) -> tuple[Stage, ...]:
    """Those that a process without CRAWL_STATE runs: whoever loads all handlers need not say that
    it has no crawls. One that names the stage has to, and hears so from the stage itself."""
    if group.stage_names or len(stages) == 1:
        return stages
    return tuple(stage for stage in stages if stage.name != CRAWL_STAGE)


def with_owner(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Who takes fetch jobs or has crawls owns shards, and whoever owns a shard has both: in stages
    of their own, whose queues are those of the shards that the process has. Raises ConfigError
    where single queues of shards are named."""
    parts = [part for stage in stages for part in _parts(stage)]
    names = {stage.name for stage in parts}
    if not names & FETCHING_STAGES:
        return tuple(parts)
    missing = [name for name in _OWNED_QUEUES if name not in names]
    return (*parts, *(_stage(name, _OWNED_QUEUES[name]) for name in missing))


class Naming(IntEnum):
    """How the settings ask for fetch jobs. In particular: the service must not leave them out.
    Among others in WORKER_QUEUES they may be left to those who share a store: the same file is made
    for many hosts."""

    NOT_AT_ALL = 0
    AMONG_OTHERS = 1
    IN_PARTICULAR = 2


def naming_of_fetch_jobs(
    groups: Iterable[ProcessGroup], queues: str, options: Mapping[str, StageOptions]
) -> Naming:
    stages = {name for group in groups for name in group.stage_names}
    of_stages = [options[name].queues or "" for name in stages if name in options]
    if FETCH in stages or any(are_fetch_queues(_names(text)) for text in of_stages):
        return Naming.IN_PARTICULAR
    named = _names(queues)
    if not are_fetch_queues(named):
        return Naming.NOT_AT_ALL
    return Naming.IN_PARTICULAR if all(map(is_fetch_queue, named)) else Naming.AMONG_OTHERS


def _entries(queues: str) -> list[str]:
    return [entry.strip() for entry in queues.split(",") if entry.strip()]


def _names(queues: str) -> list[str]:
    return [entry.partition(":")[0] for entry in _entries(queues)]


def _share(entry: str) -> int:
    given = entry.partition(":")[2]
    return int(given) if given.isdecimal() else 1


def _parts(stage: Stage) -> list[Stage]:
    """A stage of the settings file may name the queues of shards among others."""
    of_whom: dict[str, list[str]] = {}
    for name, entry in zip(_names(stage.queues), _entries(stage.queues), strict=True):
        if name not in _OWNERS and is_fetch_queue(name):
            raise ConfigError(
                f"WORKER_QUEUES: {name} is taken by whoever owns its shard: name"
                f" {_OWNED_QUEUES[FETCH]}, or set FETCH_POLITE=false"
            )
        of_whom.setdefault(_OWNERS.get(name, stage.name), []).append(entry)
    if of_whom.keys() <= {stage.name}:
        return [stage]
    return [
        replace(
            stage if name == stage.name else _stage(name, ""),
            queues=",".join(entries),
            weight=sum(map(_share, entries)),
        )
        for name, entries in of_whom.items()
    ]


def _choose(
    names: tuple[str, ...], queues_by_type: Mapping[str, str], options: Mapping[str, StageOptions]
) -> list[Stage]:
    """A stage is a registered job type, or has its queues in the settings file."""
    known = dict(queues_by_type)
    known |= {
        _NAMED_BY_QUEUE[queue]: queue
        for queue in queues_by_type.values()
        if queue in _NAMED_BY_QUEUE
    }
    known |= {name: option.queues for name, option in options.items() if option.queues}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"WORKER_STAGES: no job type {name!r} is registered here (there are: "
                f"{', '.join(sorted(known))}); does WORKER_HANDLERS name its module?"
            )
    return [_stage(name, known[name]) for name in names]


def _stages_of_entries(
    text: str, queues_by_type: Mapping[str, str], options: Mapping[str, StageOptions]
) -> tuple[Stage, ...]:
    """Back-pressure slows whole stages, so queues whose jobs fill another one are stages of their
    own; all others are one. In a strict order only neighbours are together."""
    is_strict = ":" not in text
    named = [
        (_stage_of_queue(name, queues_by_type, options), entry)
        for name, entry in zip(_names(text), _entries(text), strict=True)
    ]
    if not is_strict:
        named.sort(key=itemgetter(0))
    stages: list[Stage] = []
    times: Counter[str] = Counter()
    for rank, (name, members) in enumerate(groupby(named, key=itemgetter(0))):
        entries = [entry for _, entry in members]
        times[name] += 1
        refined = _with_options(_stage(name, ""), options.get(name))
        stages.append(
            replace(
                refined,
                name=name if times[name] == 1 else f"{name}-{times[name]}",
                queues=",".join(entries),
                weight=1 if is_strict else sum(int(entry.partition(":")[2]) for entry in entries),
                rank=rank if is_strict else 0,
            )
        )
    return tuple(stages)


def _stage_of_queue(
    queue: str, queues_by_type: Mapping[str, str], options: Mapping[str, StageOptions]
) -> str:
    """The one that it is taken from as a stage of its own, or the one of all others."""
    for name, option in options.items():
        if option.feeds and queue == (option.queues or queues_by_type.get(name)):
            return name
    if queue == ALL_CRAWL_QUEUES and queue not in queues_by_type.values():
        raise ConfigError(
            f"WORKER_QUEUES names {queue}, and no handler takes jobs from there; does "
            "WORKER_HANDLERS name its module?"
        )
    return FETCH if is_fetch_queue(queue) else _FEEDING.get(queue, DEFAULT_GROUP)


def _stages_of_queues(queues_by_type: Mapping[str, str]) -> list[Stage]:
    """One for each queue: job types that share a queue are one stage, named after the first."""
    stages: dict[str, Stage] = {}
    for jobtype, queue in sorted(queues_by_type.items()):
        name = _NAMED_BY_QUEUE.get(queue, jobtype)
        stages.setdefault(queue, _stage(name, queue))
    return list(stages.values())


def _stage(name: str, queues: str) -> Stage:
    return Stage(name, queues, cap=CAPS.get(name, MOST_SLOTS), feeds=FED_QUEUES.get(name, ""))


def _with_options(stage: Stage, options: StageOptions | None) -> Stage:
    if options is None:
        return stage
    return replace(
        stage,
        queues=options.queues or stage.queues,
        weight=options.weight,
        cap=options.cap or stage.cap,
        feeds=stage.feeds if options.feeds is None else options.feeds,
    )
