"""docs/NETWORK_TUNING.md says what the code does: sizes as the command prints them, and limits."""

import re
import shlex

import pytest

from loadtest.lib.guide import GUIDE
from manyhands.api import batcher
from manyhands.api.app import CONNECTIONS as API_CONNECTIONS
from manyhands.shared.faktory import connection, lanes
from manyhands.shared.settings import BatchSettings, FaktorySettings
from manyhands.shared.sizing import GATHER_S, HEADROOM
from manyhands.worker.commands.size import run_size
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS, SERVER_CONNECTIONS
from tests.support.imports import ROOT
from tests.unit.shared.test_sizing import arguments

TEXT = (ROOT / GUIDE).read_text()
# Without its line breaks.
FLAT = " ".join(TEXT.split())
SIZES = re.findall(r"^manyhands worker size (.*--round-trip-ms.*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("line", SIZES)
async def test_an_example_shows_what_the_command_prints(line):
    said = await run_size(arguments(*shlex.split(line, comments=True)), FaktorySettings())
    assert f"```\n{said}```\n" in TEXT


def test_there_is_an_example_for_each_distance():
    assert len(SIZES) == 3


def test_the_formula_has_the_constants_of_the_code():
    formula = f"(round trip + {GATHER_S * 1000:g} ms + job) × {HEADROOM:g}"
    assert formula in TEXT
    assert f"(2 × round trip + job) × {HEADROOM:g}" in TEXT


def test_the_connection_budget_is_that_of_the_code():
    assert f"+ {API_CONNECTIONS} × API processes + others ≤ {FLEET_CONNECTIONS:,}" in TEXT
    assert f"a socket per slot is out of reach: Faktory takes {SERVER_CONNECTIONS:,}" in TEXT
    rows = re.findall(r"^\| (\d+)(?: \([\w ]+\))? \| (\d+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 4
    for share, fits in rows:
        assert (FLEET_CONNECTIONS - 4 * API_CONNECTIONS) // int(share) == int(fits)


def test_the_limits_of_batches_and_silence_are_those_of_the_code():
    batch = BatchSettings()
    assert f"`BATCH_MAX_SIZE` jobs ({batch.max_size};" in FLAT
    assert f"`BATCH_MAX_DELAY_MS` ({batch.max_delay_ms:g})" in FLAT
    assert f"≤ {batcher.MAX_IN_FLIGHT} × BATCH_MAX_SIZE × API_PROCESSES" in FLAT
    assert f"the first probe after {connection.KEEPALIVE_IDLE_S} s of silence" in FLAT
    assert f"silent for {lanes.PATIENCE_S:g} s" in FLAT
