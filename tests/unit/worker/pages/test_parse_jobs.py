"""The parse job that carries a page."""

from datetime import UTC, datetime
from typing import Any

import pytest

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.jobs import Job, encode_job
from manyhands.worker.handlers.parse import parse
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import make_handler
from manyhands.worker.pages.bodies import unpack
from manyhands.worker.pages.parse_jobs import parse_job
from manyhands.worker.testing import MemorySinks, make_delivery


def job_of(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "url": "http://example.com/",
        "final_url": "http://example.com/home",
        "status": 200,
        "content_type": "text/html",
        "body": b"<p>x",
        "cut": None,
        "arrival": Arrival(size=4),
        "fetched_at": datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC),
        "truncate_bytes": 100,
        "fetch_id": "fetch-0001",
    }
    return parse_job(**(fields | changes))


def test_a_body_is_cut_to_what_is_parsed():
    job = job_of(body=b"x" * 11, truncate_bytes=10)
    assert (unpack(job.args[4]), job.args[5], job.args[7]) == (b"x" * 10, True, ["parse_limit"])
    job = job_of(body=b"x" * 10, truncate_bytes=10)
    assert (unpack(job.args[4]), job.args[5], job.args[7]) == (b"x" * 10, False, None)


def test_a_page_that_was_cut_while_it_was_read_says_so():
    job = job_of(cut=Cut.FETCH_LIMIT)
    assert (job.args[5], job.args[7]) == (True, ["fetch_limit"])


@pytest.mark.parametrize(
    "changes",
    [{"status": 404}, {"status": 403}, {"content_type": "application/pdf"}],
)
def test_what_is_not_parsed_is_recorded_without_its_body(changes):
    job = job_of(truncate_bytes=1, **changes)
    assert unpack(job.args[4]) == b""
    assert job.args[5] is False


async def test_the_job_is_what_its_handler_takes():
    job = job_of()
    assert (job.jobtype, job.queue, job.jid) == ("parse", "parse", "fetch-0001.parse")
    assert encode_job(job)
    context = JobContext(make_delivery("parse", job.args), MemorySinks())
    given = make_handler("parse", parse).arguments(job.args, context)
    assert given == [*job.args[:7], context, *job.args[7:]]
