"""Settings that another process is given, and does not read again."""

import os
import pickle
import subprocess
import sys

from manyhands.api.handing_down import hand_down, handed_down
from manyhands.worker.handlers import fetch
from manyhands.worker.process.handler_modules import set_up_handlers
from manyhands.worker.testing import set_up
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


async def test_handlers_get_the_settings_that_their_process_was_given(place: SettingsPlace):
    place.environment(FETCH_TIMEOUT_S="5")
    given = pickle.loads(pickle.dumps(place.load().settings))
    place.environment(FETCH_TIMEOUT_S="6")
    process = set_up_handlers(given)
    assert fetch.SETTINGS.timeout_s == 5
    await process.resources.close()


async def test_the_test_of_a_handler_reads_them(place: SettingsPlace):
    place.environment(FETCH_TIMEOUT_S="6", API_TOKEN="of a handler")
    process = set_up()
    assert fetch.SETTINGS.timeout_s == 6
    await process.resources.close()


def test_importing_our_handlers_reads_no_settings_and_makes_nothing():
    names = [path.stem for path in (ROOT / "worker" / "handlers").glob("[a-z]*.py")]
    modules = ", ".join(f"manyhands.worker.handlers.{name}" for name in names)
    code = f"import sys, {modules}; "
    code += "print('manyhands.shared.settings.loading' in sys.modules); "
    code += "from manyhands.worker.handlers import archives, fetch; "
    code += "print(hasattr(fetch, 'FETCHER'), hasattr(archives, 'SOURCES'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=25,
        env=os.environ | {"FETCH_TIMEOUT_S": "no number"},
    )
    assert done.stdout == "False\nFalse False\n", done.stderr


def test_a_process_that_is_given_its_settings_loads_no_readers():
    code = "import sys, manyhands.worker.process.child; "
    code += "print({'yaml', 'dotenv', 'argparse'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=25
    )
    assert done.stdout == "set()\n", done.stderr
