"""The profile of a worker's child: what functions are called, and where the rest of its time is."""

import asyncio
import json

import pytest

from devservers.checkout import ROOT
from loadtest.lab import burning
from loadtest.lab.burning import burn
from loadtest.lib.profiling import EVENT_LOOP, Profiler, label_of, own_seconds, place_of


def test_a_function_is_named_by_its_file_without_the_directories_of_this_machine():
    assert label_of(burn.__code__) == "loadtest/lab/burning.py burn"
    assert place_of(asyncio.tasks.__file__) == "asyncio/tasks.py"
    assert place_of(str(ROOT / ".venv/lib/site-packages/some/code.py")) == "some/code.py"
    assert label_of("<built-in method orjson.loads>") == "built-in method orjson.loads"


def test_times_of_one_name_are_added_and_the_rest_is_the_event_loops():
    seconds = own_seconds([("<a>", 0.5), ("<b>", 0.25), ("<a>", 0.5)], thread_s=2.0)
    assert seconds == {"a": 1.0, "b": 0.25, EVENT_LOOP: 0.75}


def test_a_thread_that_was_held_up_leaves_no_negative_rest():
    assert own_seconds([("<a>", 3.0)], thread_s=2.0)[EVENT_LOOP] == 0.0


def test_what_runs_between_two_signals_is_in_the_file(tmp_path):
    profiler = Profiler(tmp_path / "profile.json")
    burn()
    profiler.toggle(0, None)
    burn()
    assert not profiler.file.exists()
    profiler.toggle(0, None)
    seconds = json.loads(profiler.file.read_text())
    assert seconds["loadtest/lab/burning.py burn"] > 0
    assert list(tmp_path.iterdir()) == [profiler.file]


@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_a_bare_loop_is_counted_until_its_time_is_over(seconds):
    times, took_s = burning.burn_for(seconds)
    assert took_s >= seconds
    assert times >= (1 if seconds else 0)


def test_the_work_is_the_same_each_time():
    assert burn() == burn()
