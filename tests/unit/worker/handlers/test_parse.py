"""The parse job: the record and the message that follow from its arguments."""

from hashlib import sha256
from typing import Any

import orjson
import pytest

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.messages import FetchedPage, PagesMessage, ParsedPage, pages_job
from manyhands.shared.crawl.spec import DiscoverySpec
from manyhands.shared.errors import ConfigError
from manyhands.shared.jobs import encode_job
from manyhands.worker.handlers.parse import parse, parse_pages
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead
from manyhands.worker.jobs.registry import make_handler
from manyhands.worker.pages.bodies import pack
from manyhands.worker.pages.extraction import MAX_LINKS_LENGTH
from manyhands.worker.pages.html import MAX_CRAWLED_LINKS, MAX_LINKS
from manyhands.worker.pages.parse_jobs import page_of_job
from manyhands.worker.records import PageRecord, PlainRecord
from manyhands.worker.testing import MemorySinks, make_delivery

HTML = b"<title>Home</title><a href=a>a</a>"


@pytest.fixture
async def context() -> JobContext:
    return JobContext(make_delivery("parse", jid="fetch-0001.parse"), MemorySinks())


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
        PageRecord(
            id="fetch-0001",
            url="http://example.com/",
            final_url="http://www.example.com/dir/",
            status=200,
            content_type="text/html",
            title="Home",
            language=None,
            links=["http://www.example.com/dir/a"],
            is_truncated=False,
            fetched_at="2026-11-16T12:00:00Z",
            link_texts=["a"],
            link_rels=[""],
            content_hash=sha256(HTML).hexdigest(),
            text="a",
        )
    ]


async def test_a_repeat_makes_the_same_record(context):
    await parse(**arguments(), context=context)
    await parse(**arguments(), context=context)
    first, second = context.records
    assert first == second


async def test_a_page_without_a_body_is_a_record_without_title_and_links(context):
    await parse(**arguments(status=404, body=pack(b"")), context=context)
    (record,) = context.records
    assert (record.status, record.title, record.links) == (404, None, [])
    assert (record.kind, record.reason) == ("failed", "http 404")


async def test_what_is_no_html_is_a_record_of_its_own_kind(context):
    await parse(**arguments(content_type="Image/PNG; x=y", body=pack(b"")), context=context)
    (record,) = context.records
    assert (record.kind, record.reason) == ("other", "content type image/png")


async def test_a_job_of_somebody_else_is_known_by_its_own_id():
    context = JobContext(make_delivery("parse", jid="by-hand-1"), MemorySinks())
    await parse(**arguments(), context=context)
    assert context.records[0].id == "by-hand-1"


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"body": "not base64 of zstd"}, "body"), ({"final_url": "ftp://x/"}, "ftp")],
)
async def test_arguments_that_mean_nothing_are_dead(context, changes, says):
    with pytest.raises(Dead, match=says):
        await parse(**arguments(**changes), context=context)
    assert context.records == []


async def test_without_a_sink_a_page_alone_is_an_error():
    context = JobContext(make_delivery("parse"), None)
    with pytest.raises(ConfigError, match="no sink"):
        await parse(**arguments(), context=context)


URL = "http://www.example.com/dir/"
KEY = "00ff" * 8
QUEUE = "crawl.tag.07"
COME_BEFORE = {"mh": {"id": "0123456789", "deliveries": 1}}


def of_crawl(html: str = HTML.decode(), **changes: Any) -> FetchedPage:
    page = FetchedPage(
        visit="visit-0001",
        crawl=3,
        key=KEY,
        url=URL,
        depth=2,
        status=200,
        content_type="text/html",
        robots_tag="",
        obeys_nofollow=True,
        is_truncated=False,
        fetched_at="2026-11-16T12:00:00Z",
        body=pack(html.encode()),
    )
    return page._replace(**changes)


def pages_of(context: JobContext) -> list[ParsedPage]:
    """Of the one message that there is."""
    (child,) = context.children
    assert (child.jobtype, child.queue) == ("parsed", QUEUE)
    assert encode_job(child)
    return [ParsedPage(*page) for page in child.args[0]]


def page_of(context: JobContext) -> ParsedPage:
    (page,) = pages_of(context)
    return page


async def test_a_page_of_a_crawl_is_recorded_and_its_links_are_sent_to_its_owner(context):
    await parse_pages(QUEUE, [of_crawl()], context)
    (record,) = context.records
    assert (record.id, record.title) == ("visit-0001", "Home")
    assert (record.crawl, record.depth, record.is_indexable) == (3, 2, True)
    assert page_of(context) == ParsedPage(3, KEY, URL, 2, [URL + "a"], "")


async def test_a_page_that_was_cut_says_so_in_its_record_and_to_its_crawl(context):
    cut = of_crawl(is_truncated=True, cuts=(Cut.PARSE_LIMIT,))
    await parse_pages(QUEUE, [cut], context)
    assert context.records[0].is_truncated
    assert list(page_of(context).cuts) == [Cut.PARSE_LIMIT]


@pytest.mark.parametrize(
    ("html", "cut"),
    [
        ("<div>" * 50_000 + "<a href=/late>x</a>", Cut.NESTING),
        ("".join(f"<a href=/{number}>x</a>" for number in range(6_001)), Cut.LINK_LIMIT),
    ],
    ids=["nesting", "links"],
)
async def test_what_is_cut_in_parsing_is_told_too(context, html, cut):
    await parse_pages(QUEUE, [of_crawl(html)], context)
    assert context.records[0].is_truncated
    assert list(page_of(context).cuts) == [cut]


async def test_a_page_of_a_job_that_is_cut_in_parsing_is_truncated(context):
    body = pack(b"<div>" * 50_000)
    await parse(URL, URL, 200, "text/html", body, False, "2026-11-16T12:00:00Z", context)
    assert context.records[0].is_truncated


async def test_a_record_with_fewer_links_than_the_page_says_so(context):
    html = "".join(f"<a href=/{number}>x</a>" for number in range(1_001))
    await parse_pages(QUEUE, [of_crawl(html)], context)
    (record,) = context.records
    assert (len(record.links), record.is_truncated) == (1_000, True)
    assert (len(page_of(context).links), list(page_of(context).cuts)) == (1_001, [])


async def test_what_came_to_no_page_has_a_record_and_no_answer(context):
    failed = of_crawl("", visit="visit-0001.failed", status=404, kind="failed", reason="http 404")
    await parse_pages(QUEUE, [failed, of_crawl(visit="visit-0002")], context)
    assert [(record.id, record.kind, record.reason) for record in context.records] == [
        ("visit-0001.failed", "failed", "http 404"),
        ("visit-0002", "page", None),
    ]
    assert page_of(context).links == [URL + "a"]


async def test_nothing_but_ends_is_no_message_at_all(context):
    failed = of_crawl("", status=0, content_type="", kind="failed", reason="connection refused")
    await parse_pages(QUEUE, [failed], context)
    (record,) = context.records
    assert (record.status, record.reason, context.children) == (0, "connection refused", [])


async def test_many_pages_have_a_record_each_and_one_message(context):
    other = of_crawl("<a href=/b>b</a>", visit="visit-0002", url="http://b.example/", depth=0)
    await parse_pages(QUEUE, [of_crawl(), other], context)
    assert [record.id for record in context.records] == ["visit-0001", "visit-0002"]
    first, second = pages_of(context)
    assert first.links == [URL + "a"]
    assert second == ParsedPage(3, KEY, "http://b.example/", 0, ["http://b.example/b"], "")


async def test_pages_that_come_a_second_time_are_parsed_one_by_one():
    pages = [of_crawl(), of_crawl(visit="visit-0002")]
    again = JobContext(make_delivery("parse_pages", custom=COME_BEFORE), MemorySinks())
    await parse_pages(QUEUE, pages, again)
    assert again.records == []
    assert [child.jobtype for child in again.children] == ["parse_pages", "parse_pages"]
    assert len({child.jid for child in again.children}) == 2
    handler = make_handler("parse_pages", parse_pages, "parse")
    for child, page in zip(again.children, pages, strict=True):
        assert child.queue == "parse"
        answer_to, alone, _ = handler.arguments(child.args, None)
        assert (answer_to, alone) == (QUEUE, [page])


async def test_a_page_alone_is_parsed_however_often_it_comes():
    again = JobContext(make_delivery("parse_pages", custom=COME_BEFORE), MemorySinks())
    await parse_pages(QUEUE, [of_crawl()], again)
    assert page_of(again).links == [URL + "a"]


async def test_a_repeat_sends_the_same_message(context):
    await parse_pages(QUEUE, [of_crawl()], context)
    again = JobContext(
        make_delivery(
            "parse_pages",
            jid="another-jid",
            custom={"mh": {"id": "fetch-0001.parse", "deliveries": 1}},
        ),
        MemorySinks(),
    )
    await parse_pages(QUEUE, [of_crawl()], again)
    assert page_of(again) == page_of(context)
    assert again.records == context.records


async def test_a_crawl_needs_no_sink():
    context = JobContext(make_delivery("parse", jid="fetch-0001.parse"), None)
    await parse_pages(QUEUE, [of_crawl()], context)
    assert context.records == []
    assert page_of(context).links == [URL + "a"]


async def test_a_page_is_no_link_of_its_own(context):
    await parse_pages(
        QUEUE, [of_crawl('<a href="#x">1</a><a href="">2</a><a href="/b">3</a>')], context
    )
    assert page_of(context).links == ["http://www.example.com/b"]


FREE, MARKED = "http://www.example.com/free", "http://www.example.com/marked"
LINKS = '<a href="/free">1</a><a href="/marked" rel="ugc nofollow">2</a>'
META = '<meta name="robots" content="nofollow">'


@pytest.mark.parametrize(
    ("html", "changes", "links"),
    [
        (LINKS, {}, [FREE]),
        (META + LINKS, {}, []),
        (LINKS, {"robots_tag": "nofollow"}, []),
        (LINKS, {"robots_tag": "none"}, []),
        (LINKS, {"robots_tag": "otherbot: nofollow"}, [FREE]),
        (LINKS, {"robots_tag": "noindex"}, [FREE]),
        (LINKS, {"obeys_nofollow": False}, [FREE, MARKED]),
        (META + LINKS, {"obeys_nofollow": False, "robots_tag": "none"}, [FREE, MARKED]),
    ],
)
async def test_what_is_not_to_be_followed_is_not_sent(context, html, changes, links):
    await parse_pages(QUEUE, [of_crawl(html, **changes)], context)
    assert page_of(context).links == links
    assert context.records[0].links == [FREE, MARKED]


@pytest.mark.parametrize(
    ("html", "robots_tag"),
    [
        ('<meta name="robots" content="noindex"><title>Home</title>', ""),
        ("<title>Home</title>", "noindex"),
    ],
)
async def test_a_page_that_is_not_to_be_indexed_has_no_title_in_its_record(
    context, html, robots_tag
):
    await parse_pages(QUEUE, [of_crawl(html, robots_tag=robots_tag, obeys_nofollow=False)], context)
    (record,) = context.records
    assert (record.is_indexable, record.title) == (False, None)


async def test_a_page_that_cannot_be_parsed_is_an_answer_too(context):
    await parse_pages(QUEUE, [of_crawl(body="not base64 of zstd")], context)
    assert page_of(context) == ParsedPage(3, KEY, URL, 2, [], "not parsed: bad body")
    assert context.records == []


async def test_a_url_that_is_none_is_an_answer_too(context):
    await parse_pages(QUEUE, [of_crawl(url="ftp://x/")], context)
    assert page_of(context).error == "not parsed: bad URL"


async def test_a_crawl_gets_more_links_than_the_record_but_not_all(context):
    html = "".join(f"<a href=/{number}>x</a>" for number in range(MAX_CRAWLED_LINKS + 1))
    await parse_pages(QUEUE, [of_crawl(html)], context)
    assert len(page_of(context).links) == MAX_CRAWLED_LINKS
    assert len(context.records[0].links) == MAX_LINKS


async def test_a_message_is_bounded_in_bytes(context):
    html = f"<base href='/{'x' * 4000}/'>" + "".join(f"<a href={n}>x</a>" for n in range(5000))
    await parse_pages(QUEUE, [of_crawl(html)], context)
    sent = page_of(context).links
    assert MAX_LINKS_LENGTH - 5000 < sum(map(len, sent)) <= MAX_LINKS_LENGTH

    context.children.clear()
    await parse_pages(QUEUE, [of_crawl(html), of_crawl(), of_crawl(html)], context)
    assert [len(child.args[0]) for child in context.children] == [2, 1]
    assert len({child.jid for child in context.children}) == 2


ALL = DiscoverySpec().follows
FEED = f"<rss><channel><item><link>{URL}a</link></item></channel></rss>"
SITEMAP = (
    f"<urlset><url><loc>{URL}a</loc><lastmod>2026-11-19</lastmod></url><url><loc>{URL}b</loc></url>"
    "<url><loc>http://other.example/</loc></url></urlset>"
)


async def test_what_a_page_names_besides_its_links_is_followed_and_not_recorded(context):
    html = "<a href=a>a</a><link rel=next href=n><link rel=canonical href=a>"
    page = of_crawl(html, follows=ALL, refresh="0;url=r")
    await parse_pages(QUEUE, [page], context)
    assert page_of(context).links == [URL + "a", URL + "n", URL + "r"]
    assert context.records[0].links == [URL + "a"]


async def test_a_feed_is_recorded_as_a_page_is(context):
    page = of_crawl(FEED, content_type="application/rss+xml", follows=ALL)
    await parse_pages(QUEUE, [page], context)
    (record,) = context.records
    assert isinstance(record, PageRecord)
    assert (record.links, record.content_type) == ([URL + "a"], "application/rss+xml")
    assert page_of(context) == ParsedPage(
        *(3, KEY, URL, 2, [URL + "a"], "", ()), (("feeds", 1), ("sitemap_refused", 0))
    )


async def test_a_sitemap_keeps_when_its_pages_were_changed(context):
    page = of_crawl(SITEMAP, content_type="text/xml", follows=ALL)
    await parse_pages(QUEUE, [page], context)
    (record,) = context.records
    assert isinstance(record, PlainRecord)
    assert record.id == record.body["id"] == "visit-0001.0"
    assert (record.body["sitemap"], record.body["crawl"]) == (URL, 3)
    assert record.body["entries"] == [
        {"url": URL + "a", "lastmod": "2026-11-19"},
        {"url": URL + "b", "lastmod": None},
    ]
    # As deep as links of a seed.
    assert page_of(context) == ParsedPage(
        *(3, KEY, URL, 0, [URL + "a", URL + "b"], "", ()), (("sitemaps", 1), ("sitemap_refused", 1))
    )


@pytest.mark.parametrize("changes", [{"robots_tag": "nofollow"}, {"follows": ("frames",)}])
async def test_a_document_that_is_not_to_be_followed_has_no_links(context, changes):
    page = of_crawl(SITEMAP, content_type="text/xml", follows=ALL)._replace(**changes)
    await parse_pages(QUEUE, [page], context)
    assert page_of(context).links == []


async def test_a_sitemap_is_told_in_records_that_servers_take(context):
    entries = "".join(f"<url><loc>{URL}{number}</loc></url>" for number in range(2500))
    page = of_crawl(f"<urlset>{entries}</urlset>", content_type="text/xml", follows=ALL)
    await parse_pages(QUEUE, [page], context)
    assert [len(record.body["entries"]) for record in context.records] == [1000, 1000, 500]
    assert len({record.id for record in context.records}) == 3


async def test_a_document_with_a_bad_body_is_no_reason_to_fail(context):
    page = of_crawl(content_type="text/xml", follows=ALL, body="no base64 of zstd")
    await parse_pages(QUEUE, [page], context)
    assert page_of(context).error == "not parsed: bad body"


def of_job(html: str = HTML.decode(), **changes: Any) -> FetchedPage:
    made = page_of_job(
        fetch_id="fetch-0001",
        key=KEY,
        asked_url="http://example.com/",
        url=URL,
        status=200,
        content_type="text/html",
        body=pack(html.encode()),
        is_truncated=False,
        fetched_at="2026-11-16T12:00:00Z",
        cuts=(),
        arrival=None,
    )
    return made._replace(**changes)


async def test_a_page_of_a_fetch_job_has_the_same_record_alone_and_with_others(context):
    html = '<meta name="robots" content="noindex, nofollow"><title>Home</title><a href=a>a</a>'
    await parse(**arguments(body=pack(html.encode())), context=context)
    await parse_pages(QUEUE, [of_crawl(), of_job(html)], context)
    alone, _, with_others = context.records
    assert alone == with_others
    assert (alone.id, alone.url, alone.final_url) == ("fetch-0001", "http://example.com/", URL)
    assert (alone.crawl, alone.title, alone.links) == (None, "Home", [URL + "a"])


async def test_all_pages_of_fetch_jobs_are_told_of_and_nothing_in_them_is_followed(context):
    gone = of_job("", status=404)
    image = of_job("", visit="fetch-0002", key="11" * 16, content_type="image/png")
    await parse_pages(QUEUE, [of_job(), gone, image], context)
    assert [(record.kind, record.reason) for record in context.records] == [
        ("page", None),
        ("failed", "http 404"),
        ("other", "content type image/png"),
    ]
    done = ParsedPage(0, KEY, URL, 0, [], "")
    assert pages_of(context) == [done, done, done._replace(key="11" * 16)]


async def test_a_page_of_a_fetch_job_that_cannot_be_parsed_is_told_of_with_the_reason(context):
    await parse_pages(QUEUE, [of_job(body="not base64 of zstd")], context)
    assert context.records == []
    assert page_of(context).error.startswith("not parsed: the body")


async def test_a_page_of_a_fetch_job_travels_whole():
    page = of_job(cuts=("parse_limit",), is_truncated=True, arrival=Arrival(7, etag="x"))
    sent = pages_job(PagesMessage(answer_to=QUEUE, pages=[page]), "parse", "job-0001")
    handler = make_handler("parse_pages", parse_pages, "parse")
    assert handler.arguments(orjson.loads(orjson.dumps(sent.args)), None)[1] == [page]


async def test_the_page_of_a_fetch_job_without_a_sink_is_an_error():
    context = JobContext(make_delivery("parse_pages"), None)
    with pytest.raises(ConfigError, match="no sink"):
        await parse_pages(QUEUE, [of_job()], context)
