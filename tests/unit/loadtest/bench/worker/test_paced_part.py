"""The part of a paced run that counts: while jobs arrive and end, if the service keeps the pace."""

import pytest

from loadtest.bench.worker.cells import PACE_JOBS_PER_S
from loadtest.bench.worker.measure import PACED_SETTLE_S, paced_part
from loadtest.lab.measure import Sample
from loadtest.lib.errors import RunError


def samples_at(jobs_per_s: float, until_s: float, job_s: float = 1.0) -> list[Sample]:
    """Every quarter of a second; the first job ends after `job_s`."""
    count = int(until_s * 4) + 1
    times = [index / 4 for index in range(count)]
    return [Sample(at, round(max(0.0, at - job_s) * jobs_per_s), 0, 0, 0) for at in times]


def test_it_begins_when_slots_were_filled_and_ends_with_the_last_arrival():
    first, last = paced_part(samples_at(PACE_JOBS_PER_S, 10.0), from_s=1.0, until_s=6.0)
    assert (first.at_s, last.at_s) == (1.0 + PACED_SETTLE_S, 6.0)
    assert last.processed - first.processed == PACE_JOBS_PER_S * 4.5


def test_a_service_that_does_less_than_arrives_is_refused():
    with pytest.raises(RunError, match="when 2,500 arrived"):
        paced_part(samples_at(PACE_JOBS_PER_S * 0.9, 10.0), from_s=1.0, until_s=6.0)


@pytest.mark.parametrize("until_s", [1.0, 1.75])
def test_a_run_that_is_over_too_soon_is_refused(until_s):
    with pytest.raises(RunError, match="long enough"):
        paced_part(samples_at(PACE_JOBS_PER_S, 10.0), from_s=1.0, until_s=until_s)
