"""Settings that another process is given, and does not read again."""

import os
import pickle
import subprocess
import sys

from manyhands.api.handing_down import hand_down, handed_down
from manyhands.worker.handlers import fetch
from manyhands.worker.service import settings as of_worker
from tests.support.imports import ROOT
from tests.support.settings_place import SettingsPlace


def test_processes_of_the_api_get_the_settings_of_the_first(place):
    place.environment(API_BIND="0.0.0.0:1", API_KEYS="ops:read:0")
    settings = place.load("--batch-max-size", "7").settings
    hand_down(settings, "/run/somewhere")
    place.environment(BATCH_MAX_SIZE="8", API_KEYS="")
    copy, directory = handed_down()
    assert (copy, str(directory)) == (settings, "/run/somewhere")
    assert not any("ops:read" in value for value in os.environ.values())
    # Its own variable is no mistake of the user's.
    assert place.load(sections=("batch",)).settings.batch.max_size == 8


def test_a_worker_process_uses_what_it_was_given(place: SettingsPlace, monkeypatch):
    monkeypatch.setattr(of_worker, "_settings", None)
    place.environment(FETCH_TIMEOUT_S="5")
    given = pickle.loads(pickle.dumps(place.load().settings))
    place.environment(FETCH_TIMEOUT_S="6")
    of_worker.use(given)
    assert of_worker.current().fetch.timeout_s == 5


def test_where_nobody_gave_any_they_are_read(place: SettingsPlace, monkeypatch):
    monkeypatch.setattr(of_worker, "_settings", None)
    place.environment(FETCH_TIMEOUT_S="6", API_TOKEN="of a handler")
    assert of_worker.current().fetch.timeout_s == 6


def test_the_fetch_handler_has_the_settings_of_its_process():
    assert of_worker.current().fetch == fetch.SETTINGS


def test_a_process_that_is_given_its_settings_loads_no_readers():
    code = "import sys, manyhands.worker.process.child; "
    code += "print({'yaml', 'dotenv', 'argparse'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=25
    )
    assert done.stdout == "set()\n", done.stderr
