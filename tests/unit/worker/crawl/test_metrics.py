"""What a crawling process counts, as Prometheus gets it."""

from manyhands.shared.histogram import Histogram
from manyhands.worker.crawl.metrics import (
    ERRORS,
    FAMILIES,
    FETCHES,
    MOST_KINDS,
    OTHER,
    PAGE_BYTES,
    PUT_OFF,
    CrawlFigures,
    OtherFigures,
)
from manyhands.worker.service.families import DURATION_BOUNDS_S
from manyhands.worker.service.link import Family

NONE = OtherFigures({}, {}, {}, Histogram(DURATION_BOUNDS_S), 0.0)


def told(figures: CrawlFigures, wanted: Family) -> dict[str, float]:
    (found,) = [made for made in figures.families(NONE) if made.name == wanted.name]
    return {sample.labels[0]: sample.value for sample in found.samples}


def test_every_family_is_told():
    names = [made.name for made in CrawlFigures().families(NONE)]
    assert sorted(names) == sorted(made.name for made in FAMILIES)


def test_what_an_alert_may_watch_is_there_before_it_happens():
    figures = CrawlFigures()
    assert told(figures, FETCHES)["error"] == told(figures, ERRORS)["time-out"] == 0
    assert told(figures, PUT_OFF)["http 429"] == 0


def test_answers_are_counted_by_class_and_size_and_errors_by_type():
    figures = CrawlFigures()
    figures.fetched(200, 0.1, 5_000)
    figures.fetched(204, 0.1, 0)
    figures.failed("time-out: connect", 5.0)
    figures.failed("time-out: body", 5.0)
    figures.failed("of no name yet", 5.0)
    assert told(figures, FETCHES) == {"2xx": 2, "3xx": 0, "4xx": 0, "5xx": 0, "error": 3}
    errors = told(figures, ERRORS)
    assert (errors["time-out"], errors["of no name yet"]) == (2, 1)
    (sizes,) = [made for made in figures.families(NONE) if made.name == PAGE_BYTES.name]
    assert sizes.samples[0].buckets[:4] == [1, 0, 1, 0]
    assert figures.bytes == 5_000


def test_there_is_no_end_of_types_that_makes_an_end_of_memory():
    figures = CrawlFigures()
    for number in range(2 * MOST_KINDS):
        figures.failed(f"reason {number}", 1.0)
        figures.left_alone(f"reason {number}")
    assert len(told(figures, ERRORS)) == len(told(figures, PUT_OFF)) == MOST_KINDS + 1
    assert told(figures, ERRORS)[OTHER] > MOST_KINDS
