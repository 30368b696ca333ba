"""`bench-state`: what the state store of the crawls costs, and how it is laid out best."""

import contextlib

from rich.console import Console

from loadtest.bench.state.cells import (
    COST_URLS,
    MEASURES,
    ONE_SHARD,
    SEEN_BATCHES,
    WRITE_S,
    cells,
)
from loadtest.bench.state.measure import (
    SeenState,
    Values,
    measure_costs,
    measure_writers,
    seen_state,
)
from loadtest.bench.state.places import Places
from loadtest.bench.state.report import (
    StateReport,
    StateRun,
    outcome,
    print_state_report,
    write_state_report,
)
from loadtest.lib.benchmark import Benchmark, Wanted
from loadtest.lib.machine import basic_facts, postgres_facts, sqlite_facts
from loadtest.lib.options import Option, counts, one_or_more
from loadtest.lib.progress import do_all
from loadtest.lib.runs import Step, in_turns

SEEN_URLS = [1_000_000, 20_000_000]
# Nothing is compared: the store alone is measured.
STORE = "store"


class StateBench:
    """State: the places with many seen keys, which are made once for all rounds."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        self._opened = opened
        self._places = Places(opened)
        self._states: dict[str, SeenState] = {}

    def run(self, step: Step[str, str]) -> StateRun:
        return StateRun(step.cell, step.round, values=self._measure(step))

    def _measure(self, step: Step[str, str]) -> Values:
        kind, store, *rest = step.cell.split("/")
        if kind == "seen":
            return self.seen_state(step.cell).measure(step.round, SEEN_BATCHES)
        with self._places.new(store) as place:
            if kind == "costs":
                return measure_costs(place, COST_URLS)
            writers, layout = rest
            return measure_writers(place, int(writers), layout == ONE_SHARD, WRITE_S)

    def seen_state(self, cell: str) -> SeenState:
        if cell not in self._states:
            _, store, seen = cell.split("/")
            place = self._opened.enter_context(self._places.new(store))
            self._states[cell] = self._opened.enter_context(seen_state(place, int(seen)))
        return self._states[cell]


def run(console: Console, wanted: Wanted[None]) -> StateReport:
    rounds = wanted.rounds
    chosen = cells(wanted.options.seen, wanted.options.measures)
    with contextlib.ExitStack() as opened:
        done = do_all(
            console,
            list(in_turns(chosen, rounds, lambda _cell, _round: (STORE,))),
            label=lambda step: f"{step.cell}  round {step.round}/{rounds}",
            run=StateBench(opened).run,
            error=lambda run: run.error,
            result=outcome,
        )
    return StateReport.of(wanted.machine, chosen, done)


BENCHMARK = Benchmark(
    name="state",
    help="admit, claim and settle URLs in the state store, by several processes and among many",
    rounds=3,
    facts=lambda: basic_facts() | sqlite_facts() | postgres_facts(),
    options=(
        Option("--seen", "URLs that are known, or a list (default %(default)s)", counts, SEEN_URLS),
        one_or_more(MEASURES, "--measures", "measure"),
    ),
    run=run,
    show=print_state_report,
    write=write_state_report,
)
