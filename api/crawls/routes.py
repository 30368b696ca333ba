"""The routes of crawls, and of the domains that they visit."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from manyhands.api.body_lines import NDJSON, body_lines
from manyhands.api.crawls.model import (
    CrawlChange,
    CrawlPage,
    CrawlRequest,
    CrawlStarted,
    CrawlView,
    DomainList,
    DomainOrder,
    DomainRuleView,
    DryRunAnswer,
    DryRunRequest,
    ErrorList,
    PurgeOfAllOrdered,
    PurgeOrdered,
    UrlPage,
    UrlStateName,
)
from manyhands.api.crawls.orders import CrawlAction
from manyhands.api.crawls.paging import MAX_CURSOR_LENGTH, MAX_ID
from manyhands.api.crawls.seeds import Seed, check_seeds, json_line, plain_line
from manyhands.api.crawls.service import CrawlService
from manyhands.api.guard import RequestHeaders
from manyhands.api.intake import Model, checked
from manyhands.api.keys import Key
from manyhands.api.openapi_bodies import json_body, lines
from manyhands.api.parts import Parts, pay_now
from manyhands.api.problems import Problem
from manyhands.api.routes import (
    MAX_WHICH_BYTES,
    AcceptedLines,
    PartsOf,
    held,
    parts_of,
)
from manyhands.api.stream import LineStream, ReadLine
from manyhands.api.whole_body import whole_body
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.urls import MAX_HOST_LENGTH

STORE_GONE = "the state of the crawls cannot be written"
NO_CRAWLS = "there are no crawls here: CRAWL_STATE is not set"
# A JSON document in place of lines would be refused line by line.
NOT_LINES = "application/json"

router = APIRouter(tags=["crawls"])


def crawls_of(request: Request) -> CrawlService:
    crawls = parts_of(request).crawls
    if crawls is None:
        raise Problem(501, NO_CRAWLS)
    return crawls


Crawls = Annotated[CrawlService, Depends(crawls_of)]
CrawlId = Annotated[int, Path(ge=1, le=MAX_ID)]
Domain = Annotated[
    str, Path(min_length=1, max_length=MAX_HOST_LENGTH, description="a registrable domain")
]
Cursor = Annotated[str | None, Query(min_length=1, max_length=MAX_CURSOR_LENGTH)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.post(
    "/crawls",
    status_code=201,
    response_model=CrawlStarted,
    openapi_extra=json_body(CrawlRequest),
    responses={
        200: {"model": CrawlStarted, "description": "An earlier request with this key started it"}
    },
)
async def start_crawl(
    request: Request,
    crawls: Crawls,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            pattern=r"^[!-~]+$",
            description="Requests with the same one and the same body start one crawl",
        ),
    ] = None,
) -> Response:
    """Start a crawl. The request holds up to 10,000 seeds; if one of them is invalid, no crawl is
    started. More can follow as lines."""
    key: Key = request.scope["key"]
    wanted = await _read(request, CrawlRequest)
    seeds = check_seeds(wanted.seeds, crawls.addresses)
    pay_now(key, max(1, len(seeds)))
    # Idempotency keys are separate for each API key.
    name = None if idempotency_key is None else f"{key.name}:{idempotency_key}"
    crawl, is_new = await crawls.start(wanted, seeds, name)
    started = CrawlStarted(id=crawl.id, state=crawl.state, seeds=len(seeds))
    headers = {"location": f"/crawls/{crawl.id}"}
    if not is_new:
        headers["idempotent-replayed"] = "true"
    return Response(
        started.model_dump_json(), 201 if is_new else 200, headers, media_type="application/json"
    )


@router.post("/crawls/dry-run", openapi_extra=json_body(DryRunRequest))
async def dry_run(request: Request, crawls: Crawls) -> DryRunAnswer:
    """What a crawl would do with URLs, and why. Nothing is fetched, and nothing is kept."""
    return await crawls.dry_run(await _read(request, DryRunRequest))


@router.get("/crawls", response_model=CrawlPage)
async def get_crawls(
    crawls: Crawls,
    parts: PartsOf,
    cursor: Cursor = None,
    limit: Limit = 100,
    state: CrawlState | None = None,
) -> Response:
    """The newest first."""
    page = await crawls.page(cursor, limit, state)
    return held(parts, page.model_dump_json().encode())


@router.get("/crawls/{crawl:int}", response_model=CrawlView)
async def get_crawl(crawl: CrawlId, crawls: Crawls, parts: PartsOf) -> Response:
    """Its progress, and what limits it now."""
    view = await crawls.view(crawl)
    return held(parts, view.model_dump_json().encode())


@router.get("/crawls/{crawl:int}/urls")
async def get_urls(
    crawl: CrawlId, crawls: Crawls, state: UrlStateName, cursor: Cursor = None, limit: Limit = 100
) -> UrlPage:
    """Its URLs in one state, in no particular order."""
    return await crawls.urls(crawl, UrlState[state.upper()], cursor, limit)


@router.get("/crawls/{crawl:int}/errors")
async def get_errors(crawl: CrawlId, crawls: Crawls) -> ErrorList:
    """Why URLs failed, were left out or are tried again."""
    return await crawls.errors(crawl)


@router.post(
    "/crawls/{crawl:int}/seeds",
    status_code=202,
    response_model=AcceptedLines,
    openapi_extra={"requestBody": {"content": lines('{"url": "https://example.com/"}')}},
)
async def add_seeds(
    crawl: CrawlId,
    request: Request,
    crawls: Crawls,
    last: Annotated[bool, Query(description="No more will come: the crawl may start")] = False,
) -> Response:
    """Seeds of any number, one a line: plain URLs, or NDJSON. Each line stands for itself, and the
    answer names those that were refused. May be packed (Content-Encoding: gzip or zstd)."""
    parts = parts_of(request)
    visit: RequestHeaders = request.scope["visit"]
    parts.refuse_if_draining()
    if visit.content_type == NOT_LINES:
        raise Problem(415, "seeds come as lines: send text/plain or application/x-ndjson")
    read = json_line if visit.content_type in NDJSON else plain_line
    await crawls.open_for_seeds(crawl)
    result = await _take_lines(
        request, parts, crawls, crawl, lambda line, _: read(line, crawls.addresses)
    )
    if last:
        await crawls.end_seeds(crawl)
    return Response(orjson.dumps(result), 202, media_type="application/json")


async def _take_lines(
    request: Request, parts: Parts, crawls: CrawlService, crawl: int, read_line: ReadLine[Seed]
) -> dict[str, Any]:
    key, visit = request.scope["key"], request.scope["visit"]
    with body_lines(parts, key, visit, request.receive) as body:
        stream = LineStream(
            lambda seeds: crawls.add_seeds(crawl, seeds), read_line, body.pay, body.stop, STORE_GONE
        )
        report = await stream.take(body.chunks, body.unpacker, body.lines)
    return report.result()


@router.post("/crawls/{crawl:int}/pause", status_code=202)
async def pause_crawl(crawl: CrawlId, crawls: Crawls) -> CrawlChange:
    """No new URL is fetched; what is in flight is finished."""
    return await crawls.change(crawl, CrawlAction.PAUSE)


@router.post("/crawls/{crawl:int}/resume", status_code=202)
async def resume_crawl(crawl: CrawlId, crawls: Crawls) -> CrawlChange:
    """Go on after a pause."""
    return await crawls.change(crawl, CrawlAction.RESUME)


@router.post("/crawls/{crawl:int}/cancel", status_code=202)
async def cancel_crawl(crawl: CrawlId, crawls: Crawls) -> CrawlChange:
    """End it: what is in flight is finished, what waits is dropped."""
    return await crawls.change(crawl, CrawlAction.CANCEL)


# Domains


@router.put("/crawls/{crawl:int}/domains/{domain}", openapi_extra=json_body(DomainOrder))
async def order_for_crawl(
    crawl: CrawlId, domain: Domain, request: Request, crawls: Crawls
) -> DomainRuleView:
    """Set how this crawl treats a domain, replacing any earlier rule."""
    return await crawls.set_rule(crawl, domain, await _read(request, DomainOrder, MAX_WHICH_BYTES))


@router.put("/domains/{domain}", openapi_extra=json_body(DomainOrder))
async def order_for_all(domain: Domain, request: Request, crawls: Crawls) -> DomainRuleView:
    """Set how all crawls treat a domain, replacing any earlier rule. A crawl's own rule comes
    first."""
    return await crawls.set_rule(None, domain, await _read(request, DomainOrder, MAX_WHICH_BYTES))


@router.patch("/crawls/{crawl:int}/domains/{domain}", openapi_extra=json_body(DomainOrder))
async def change_order_for_crawl(
    crawl: CrawlId, domain: Domain, request: Request, crawls: Crawls
) -> DomainRuleView:
    """Pause or resume, block or unblock a domain in this crawl, or set its delay or take it back:
    what is not named stays as it was."""
    order = await _read(request, DomainOrder, MAX_WHICH_BYTES)
    return await crawls.change_rule(crawl, domain, order)


@router.patch("/domains/{domain}", openapi_extra=json_body(DomainOrder))
async def change_order_for_all(domain: Domain, request: Request, crawls: Crawls) -> DomainRuleView:
    """The same in all crawls, those that come included, and for fetch jobs."""
    order = await _read(request, DomainOrder, MAX_WHICH_BYTES)
    return await crawls.change_rule(None, domain, order)


@router.delete("/domains/{domain}/queued", status_code=202)
async def purge_domain_for_all(domain: Domain, crawls: Crawls) -> PurgeOfAllOrdered:
    """Drop the queued URLs of a domain, of all crawls and fetch jobs."""
    return await crawls.purge_for_all(domain)


@router.delete("/crawls/{crawl:int}/domains/{domain}/queued", status_code=202)
async def purge_domain(crawl: CrawlId, domain: Domain, crawls: Crawls) -> PurgeOrdered:
    """Drop the queued URLs of a domain. The worker that owns it will do so."""
    return await crawls.purge(crawl, domain)


@router.get("/domains")
async def get_domains(crawls: Crawls, limit: Limit = 100) -> DomainList:
    """The domains of all crawls with most URLs waiting."""
    return await crawls.domains(limit)


async def _read(request: Request, model: type[Model], limit: int | None = None) -> Model:
    """The body, which may be packed, as a model."""
    parts = parts_of(request)
    parts.refuse_if_draining()
    key, visit = request.scope["key"], request.scope["visit"]
    most = limit or parts.settings.max_body_bytes
    async with whole_body(parts, key, visit, request.receive, most) as body:
        return checked(model, body, "body")
