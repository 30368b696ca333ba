"""Sections of docs/NETWORK_TUNING.md: replaced in place, and never older than their benchmark."""

import pytest

from devservers.checkout import ROOT
from loadtest.lib.guide import GUIDE, fill_section, split_at, with_section

TEXT = "before\n<!-- a:begin -->\nold\n<!-- a:end -->\nbetween\n<!-- b:begin --><!-- b:end -->\n"


def test_a_section_is_replaced_and_everything_around_it_stays():
    filled = with_section(TEXT, "a", ["| new |"])
    assert filled.startswith("before\n<!-- a:begin -->\n\n| new |\n\n<!-- a:end -->\nbetween\n")
    assert filled.endswith(TEXT.partition("between")[2])
    assert split_at(filled, "a")[1].strip() == "| new |"


def test_a_section_can_be_filled_again_and_an_empty_one_too(tmp_path):
    guide = tmp_path / "guide.md"
    guide.write_text(TEXT)
    for lines in (["first"], ["second", "third"]):
        fill_section(guide, "b", lines)
        assert split_at(guide.read_text(), "b")[1].split() == lines


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- a:begin -->",
        "<!-- a:end --> <!-- a:begin -->",
        "<!-- a:begin --> <!-- a:begin --> <!-- a:end -->",
    ],
)
def test_a_place_that_is_not_there_once_is_refused(text):
    with pytest.raises(ValueError, match="a:begin"):
        with_section(text, "a", [])


def tables(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("name", ["consumer", "network"])
def test_the_guide_shows_what_the_committed_benchmark_measured(name):
    shown = tables(split_at((ROOT / GUIDE).read_text(), name)[1])
    report = ROOT / "docs" / "benchmarks" / f"{name}.md"
    measured = tables(report.read_text()) if report.exists() else []
    assert bool(shown) == bool(measured)
    assert set(shown) <= set(measured)
