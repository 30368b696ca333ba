"""`bench-warc`: its file, its plan and its page."""

from collections import Counter
from pathlib import Path

from loadtest.bench.warc.cells import (
    BARE,
    CHECKED,
    DECODE,
    EXPORT,
    OURS,
    PLAIN,
    SIDES,
    WarcOrder,
    plan_warc,
)
from loadtest.bench.warc.files import LARGEST_PAGE, make_archive
from loadtest.bench.warc.handlers import WORK, run
from loadtest.bench.warc.measure import WarcRun
from loadtest.bench.warc.report import WarcReport, markdown, verdicts

SIZE = 300_000


def test_all_sides_find_in_the_file_what_was_put_there(tmp_path: Path) -> None:
    made = make_archive(tmp_path / "a.warc.gz", SIZE)
    assert SIZE <= made.size == (tmp_path / "a.warc.gz").stat().st_size < SIZE + LARGEST_PAGE
    # As those of Common Crawl.
    assert 4 < made.payload_bytes / made.size < 5
    for work, side in WORK:
        order = WarcOrder(work, side, made.path, str(tmp_path), made.pages, made.payload_bytes)
        values = run(order)
        assert values["pages"] == made.pages
        assert values["mb_per_s"] > 0
        assert work != EXPORT or values["row_groups"] == 1


def test_the_file_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = (make_archive(tmp_path / name, SIZE) for name in ("a", "b"))
    assert first.pages == second.pages
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_side_runs_once_in_each_round_and_each_is_first_once() -> None:
    steps = list(plan_warc(200, 3, 1024))
    rounds = [step for step in steps if not step.is_for_memory]
    assert Counter((step.work, step.side) for step in rounds) == dict.fromkeys(WORK, 3)
    first = {step.side for step in rounds[:: sum(map(len, SIDES.values()))]}
    assert first == {BARE, OURS, CHECKED}
    memory = [step for step in steps if step.is_for_memory]
    assert {(step.work, step.side) for step in memory} == {(DECODE, OURS), (EXPORT, OURS)}
    assert sorted({step.size_mb for step in memory}) == [256, 512, 1024]
    assert not [step for step in plan_warc(200, 1, 0) if step.is_for_memory]


def report_of(*runs: WarcRun) -> WarcReport:
    return WarcReport(
        "python -m loadtest bench-warc", "today", {"cores": "2"}, [], list(runs), True
    )


def made_up(work: str, side: str, rate: float, **more: object) -> WarcRun:
    values = {
        "mb_per_s": rate,
        "pages_per_s": rate,
        "cpu_us": 1.0,
        "peak_mb": 100.0,
        "pages": 5.0,
        "row_groups": 7.0,
    }
    fields = {"round": 1, "size_mb": 200, "is_for_memory": False, "values": values} | more
    return WarcRun(cell=work, side=side, **fields)  # type: ignore[arg-type]


def test_ratios_are_to_the_peer_and_judged() -> None:
    report = report_of(
        made_up(DECODE, BARE, 1000),
        made_up(DECODE, OURS, 800),
        made_up(DECODE, CHECKED, 500),
        made_up(EXPORT, PLAIN, 100),
        made_up(EXPORT, OURS, 450),
    )
    reached, missed = verdicts(report)
    assert "0.80 x bare FastWARC loop" in reached and reached.endswith("reached")
    assert "4.50 x warcio" in missed and missed.endswith("MISSED")
    text = markdown(report)
    assert "| ours, digests checked | 500 (500 to 500) |" in text
    assert "0.50 (0.50 to 0.50)" in text


def test_memory_is_told_by_the_length_of_the_file_and_failures_are_not_counted() -> None:
    failed = made_up(EXPORT, OURS, 1, error="it broke", values={})
    report = report_of(
        made_up(DECODE, OURS, 1, size_mb=1024, is_for_memory=True),
        made_up(EXPORT, OURS, 1, size_mb=1024, is_for_memory=True),
        failed,
    )
    text = markdown(report)
    assert "| 1,024 MB | 5 | 100 | 100 | 7 |" in text
    assert "it broke" in text
    assert verdicts(report) == []
