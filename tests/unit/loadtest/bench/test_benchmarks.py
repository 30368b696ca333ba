"""Every folder of loadtest/bench is a benchmark of the command line, and nothing else names it."""

import re

import pytest

from devservers.checkout import ROOT
from loadtest.__main__ import OUT, choose, make_parser
from loadtest.bench import benchmark_names, find_benchmark
from loadtest.lib.benchmark import Cells

NAMES = benchmark_names()
MADE_UP = Cells(default=("a",), read=lambda text: (text,), help="", full=("a", "b"), full_rounds=2)


def test_the_folders_are_the_benchmarks():
    folders = {path.parent.name for path in (ROOT / "loadtest" / "bench").glob("*/benchmark.py")}
    assert set(NAMES) == folders
    assert "consumer" in folders


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_has_the_name_of_its_folder_and_can_be_made(name):
    assert find_benchmark(name).name == name
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^bench-{name}: .*\n\t\$\(PY\) -m loadtest bench-{name} ", makefile, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_asked_for_without_an_option(name):
    options = make_parser().parse_args([f"bench-{name}"])
    assert (options.rounds, options.out) == (None, OUT)


@pytest.mark.parametrize("name", NAMES)
def test_the_option_that_sizes_a_comparison_is_there(name):
    against = find_benchmark(name).against
    if against:
        options = make_parser().parse_args([f"bench-{name}", "--against", "HEAD"])
        assert options.against == "HEAD"
        assert against.size is None or hasattr(options, against.size)
    else:
        with pytest.raises(SystemExit):
            make_parser().parse_args([f"bench-{name}", "--against", "HEAD"])


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], (("a",), 5)),
        (["--full"], (("a", "b"), 2)),
        (["--cells", "noop/0/7"], None),
    ],
)
def test_cells_of_the_command_line_go_before_all_and_all_before_the_core(words, chosen):
    options = make_parser().parse_args(["bench-consumer", *words])
    found = choose(MADE_UP, 5, options)
    assert found == (chosen or (options.cells, 5))
