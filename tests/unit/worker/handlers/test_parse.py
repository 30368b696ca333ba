"""The parse job: the record that follows from its arguments."""

from typing import Any

import pytest

from worker.bodies import pack
from worker.context import JobContext
from worker.handlers.parse import parse
from worker.outcomes import Dead
from worker.testing import make_delivery

HTML = b"<title>Home</title><a href=a>a</a>"


@pytest.fixture
async def context() -> JobContext:
    return JobContext(make_delivery("parse", jid="fetch-0001.parse"), can_emit=True)


def arguments(**changes: Any) -> dict[str, Any]:
    return {
        "url": "http://example.com/",
        "final_url": "http://www.example.com/dir/",
        "status": 200,
        "content_type": "text/html",
        "body": pack(HTML),
        "is_truncated": False,
        "fetched_at": "2026-11-16T12:00:00Z",
    } | changes


async def test_a_page_becomes_one_record_under_the_id_of_its_fetch_job(context):
    await parse(**arguments(), context=context)
    assert context.records == [
        {
            "id": "fetch-0001",
            "url": "http://example.com/",
            "final_url": "http://www.example.com/dir/",
            "status": 200,
            "content_type": "text/html",
            "title": "Home",
            "links": ["http://www.example.com/dir/a"],
            "is_truncated": False,
            "fetched_at": "2026-11-16T12:00:00Z",
        }
    ]


async def test_a_repeat_makes_the_same_record(context):
    await parse(**arguments(), context=context)
    await parse(**arguments(), context=context)
    first, second = context.records
    assert first == second


async def test_a_page_without_a_body_is_a_record_without_title_and_links(context):
    await parse(**arguments(status=404, body=pack(b"")), context=context)
    (record,) = context.records
    assert (record["status"], record["title"], record["links"]) == (404, None, [])


async def test_a_job_of_somebody_else_is_known_by_its_own_id():
    context = JobContext(make_delivery("parse", jid="by-hand-1"), can_emit=True)
    await parse(**arguments(), context=context)
    assert context.records[0]["id"] == "by-hand-1"


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"body": "not base64 of zstd"}, "body"), ({"final_url": "ftp://x/"}, "ftp")],
)
async def test_arguments_that_mean_nothing_are_dead(context, changes, says):
    with pytest.raises(Dead, match=says):
        await parse(**arguments(**changes), context=context)
    assert context.records == []
