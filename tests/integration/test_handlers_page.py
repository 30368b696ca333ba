"""The handlers and the tests that docs/HANDLERS.md shows, run as their reader would run them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.doc_commands import ROOT, blocks

PAGE = ROOT / "docs" / "HANDLERS.md"


def test_the_tests_of_the_page_pass_in_a_directory_of_their_own(tmp_path: Path) -> None:
    shown = [block for block in blocks(PAGE.read_text()) if block.language == "python"]
    for block in shown:
        name = block.text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(block.text)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=80,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum(block.text.count('def test_') for block in shown)} passed" in done.stdout
