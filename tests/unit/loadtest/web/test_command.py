"""What the synthetic web says of its visitors at its end."""

from loadtest.web.command import describe
from loadtest.web.oracle import Coverage
from loadtest.web.politeness import Verdict, Violations
from loadtest.web.synthetic_web import Counts

COUNTS = Counts(
    requests=44,
    robots=4,
    pages=40,
    bytes=0,
    statuses={"200": 44},
    now_ns=0,
    connections=4,
    dns_questions=4,
    cpu_s=0.0,
)


def test_a_page_twice_is_counted_apart_from_the_other_violations():
    verdict = Verdict(visits=44, least_gap_s=0.1)
    verdict.repeated = Violations(1, ["http://a.test/"])
    verdict.short_gaps = Violations(2, ["http://a.test/x 0.1 s after http://a.test/"])
    covered = Coverage(wanted=40, fetched=39, missed=["http://a.test/y"], unwanted=[])
    told = describe(verdict, COUNTS, covered)
    assert (told["twice"], told["violations"], told["missed"]) == (1, 2, 1)
    assert (told["visits"], told["robots"], told["pages"]) == (44, 4, 40)
    assert "2 short gaps" in told["text"]
    assert "39 of 40 URLs" in told["text"]
