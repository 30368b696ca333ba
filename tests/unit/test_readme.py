"""README.md fits a reader's screen, its links lead somewhere, and its picture is what is drawn."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doc_commands import ROOT, blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = PAGES[0].read_text()
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_it_is_short_and_its_code_fits_80_columns():
    assert len(TEXT.splitlines()) <= 120
    wide = [line for block in blocks(TEXT) for line in block.text.splitlines() if len(line) > 80]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_the_picture_is_what_its_program_draws():
    picture = ROOT / "docs" / "architecture.svg"
    program = ROOT / "docs" / "pictures" / "architecture.py"
    drawn = "import runpy, sys; sys.stdout.write(runpy.run_path(sys.argv[1])['drawn']())"
    done = subprocess.run([sys.executable, "-c", drawn, program], capture_output=True, check=True)
    assert done.stdout == picture.read_bytes()
