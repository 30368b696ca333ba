"""The README's first command, with smaller numbers."""

import pytest

from tests.support.cli_command import run_cli


@pytest.mark.timeout(160)
def test_the_demo_crawls_a_whole_web_politely_with_nothing_but_python(tmp_path):
    ended = run_cli(
        tmp_path,
        *("demo", "--hosts", "8", "--pages", "40", "--delay", "0.05", "--slots", "20"),
        # No go, no compiler: what builds the web comes with the Python packages.
        PATH="/nonexistent",
    )
    said = ended.stderr.decode()
    assert ended.returncode == 0, said
    words = " ".join(said.split())
    assert "a web of 8 hosts and 40 pages" in words
    assert "crawl 1 completed" in words
    assert "done 40" in words
    assert "requests 48, of them robots.txt 8" in words
    assert "pages 40, of them twice 0" in words
    assert "politeness 0 violations" in words
    assert ended.stdout == b""
    assert "next: manyhands crawl" in words
    kept = tmp_path / "manyhands-demo"
    assert len((kept / "pages.ndjson").read_bytes().splitlines()) == 40
    (kept / "this-is-a-demo.txt").unlink()
    ended = run_cli(tmp_path, "demo")
    assert ended.returncode == 2
    assert (
        ended.stderr == b"manyhands: manyhands-demo is not of an earlier demo: name another --dir\n"
    )
