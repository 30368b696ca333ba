"""Little's law, and the command that applies it."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.settings import FaktorySettings
from manyhands.shared.sizing import GATHER_S, HEADROOM, classic_slot_s, slot_s, slots_for
from manyhands.worker.commands.size import add_size_command, run_size

rates = st.floats(1, 100_000)
seconds = st.floats(0.0001, 60)


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_size_command(parser.add_subparsers(dest="command"))
    return parser.parse_args(["size", *words])


def test_a_thousand_jobs_a_second_of_100_ms_over_50_ms():
    size = slots_for(1000, 0.05, 0.1)
    assert size.slots == pytest.approx(1000 * (0.15 + GATHER_S) * HEADROOM, abs=1)
    assert size.classic_slots == pytest.approx(1000 * 0.2 * HEADROOM, abs=1)


@given(rates, seconds, seconds)
def test_the_slots_for_a_rate_can_do_that_rate(rate, round_trip_s, job_s):
    size = slots_for(rate, round_trip_s, job_s)
    assert size.slots / slot_s(round_trip_s, job_s) >= rate
    assert size.classic_slots / classic_slot_s(round_trip_s, job_s) >= rate


@given(rates, seconds, seconds)
def test_a_longer_path_needs_more_slots_and_a_classic_client_twice_the_path(rate, trip_s, job_s):
    near, far = slots_for(rate, trip_s, job_s), slots_for(rate, trip_s * 2, job_s)
    assert far.slots >= near.slots
    assert far.classic_slots - near.classic_slots >= far.slots - near.slots - 1


async def test_a_given_round_trip_needs_no_server():
    words = ("--rate", "5000", "--job-ms", "1000", "--round-trip-ms", "50")
    said = await run_size(arguments(*words), FaktorySettings(url="tcp://127.0.0.1:1"))
    assert "WORKER_CONCURRENCY   6330" in said
    assert "96 (one per slot would be 6600)" in said
    assert "out of reach" in said


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "many"])
def test_what_is_no_rate_is_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        arguments("--rate", wrong, "--job-ms", "1")
    assert "--rate" in capsys.readouterr().err
