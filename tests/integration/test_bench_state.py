"""`bench-state` with a real PostgreSQL: its runs give what the page shows."""

import contextlib

from loadtest.bench.state.cells import POSTGRES
from loadtest.bench.state.measure import (
    CRAWL,
    EPOCH,
    measure_costs,
    measure_writers,
    opened_store,
)
from loadtest.bench.state.places import GENERATION, Places
from loadtest.bench.state.report import FIGURES
from manyhands.shared.crawl.store.model import NewUrl


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
            place.fill_seen(0, CRAWL + 1, [number.to_bytes(16, "big") for number in range(1000)])
            with opened_store(place) as store:
                shard = store.open_shard(GENERATION, 0, EPOCH, 0.0)
                url = NewUrl((7).to_bytes(16, "big"), "http://a.b/", "http://a.b", "a.b", 0)
                with shard.transaction():
                    assert shard.admit(CRAWL + 1, [url], 0.0).duplicates == 1
