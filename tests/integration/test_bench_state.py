"""`bench-state` with a real PostgreSQL: its runs give what the page shows."""

import contextlib

from loadtest.bench.state.cells import POSTGRES
from loadtest.bench.state.measure import measure_costs, measure_writers, seen_state
from loadtest.bench.state.places import Places
from loadtest.bench.state.report import FIGURES


def test_the_runs_give_what_the_page_shows():
    names = {kind: {figure.name for figure in figures} for kind, figures in FIGURES.items()}
    with contextlib.ExitStack() as opened:
        places = Places(opened)
        with places.new(POSTGRES) as place:
            costs = measure_costs(place, 2560)
        assert set(costs) == names["costs"]
        assert 100 < costs["url_bytes"] < 2000
        with places.new(POSTGRES) as place:
            written = measure_writers(place, 2, False, 0.2)
        assert set(written) == names["writers"]
        assert written["server_us"] > 0
        with places.new(POSTGRES) as place, seen_state(place, 6400) as state:
            values = state.measure(1, 1)
        assert set(values) == names["seen"]
        assert 0.3 < values["duplicates_share"] < 0.6
