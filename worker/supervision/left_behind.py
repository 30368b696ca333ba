"""Puts the jobs without retries of a dead child back into their queues, before the server discards
them. Any of them may have killed the child, so each counts how often that happened to it; one with
too many deaths has failed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from manyhands.worker.jobs.delivery import Delivery, copy_after_death, parse_delivery
from manyhands.worker.service.held_jobs import HeldJob

MOST_DEATHS = 3


@dataclass(slots=True, frozen=True)
class LeftBehind:
    """A job and its copy to queue; None: it has failed."""

    job: Delivery
    copy: bytes | None
    deaths: int


def judge(held: Sequence[HeldJob]) -> list[LeftBehind]:
    return [_judge_one(one) for one in held]


def _judge_one(held: HeldJob) -> LeftBehind:
    job = parse_delivery(held.payload, 0.0)
    deaths = job.deaths + held.was_started
    is_failed = held.was_started and deaths >= MOST_DEATHS
    return LeftBehind(job, None if is_failed else copy_after_death(job, deaths), deaths)
