"""The service: what runs before every route, and what each process builds at its start.

request ─► guard (origin, host, key, scope) ─► single.take_job, many.take_jobs, or routes.py
"""

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from http import HTTPStatus
from multiprocessing import parent_process
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from manyhands.api.batcher import Batcher, BatchRules
from manyhands.api.bodies import ClientGone, Receive
from manyhands.api.budget import Shares
from manyhands.api.crawls.results import Results
from manyhands.api.crawls.results_routes import router as results_router
from manyhands.api.crawls.routes import router as crawl_router
from manyhands.api.crawls.service import CrawlService, open_crawls
from manyhands.api.guard import ANYBODY, Guard, read_headers
from manyhands.api.handing_down import handed_down
from manyhands.api.intake import Intake
from manyhands.api.keys import Key, make_bucket, parse_keys
from manyhands.api.many import PATH as MANY_JOBS
from manyhands.api.many import is_many_jobs, take_jobs
from manyhands.api.metrics import ApiMetrics
from manyhands.api.openapi import complete
from manyhands.api.parts import Parts
from manyhands.api.problems import Problem, mistake
from manyhands.api.query_names import refuse_unknown_query
from manyhands.api.replies import Send, send_problem, with_security_headers
from manyhands.api.routes import parts_of, router
from manyhands.api.siblings import answering
from manyhands.api.single import PREFIX, is_single_job, take_job
from manyhands.shared.budget import ByteBudget
from manyhands.shared.errors import ConnectFailed
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import ServerAddress, parse_url
from manyhands.shared.http.limits import HELD_PAGES_BYTES
from manyhands.shared.jobtypes import JOB_TYPES
from manyhands.shared.logs import configure_logs, get_logger
from manyhands.shared.settings import (
    AllowSettings,
    ApiSettings,
    BatchSettings,
    CrawlSettings,
    FaktorySettings,
    ResultsSettings,
    host_and_port,
)
from manyhands.shared.taken_output import take_in_output
from manyhands.shared.version import VERSION

# Towards the broker, from each process; PUSHBs are answered in order on each of them.
CONNECTIONS = 4
WEB_PORT = 7420
# New objects between two looks for garbage; Python's own 700 is a few dozen requests.
GC_THRESHOLD = 10_000
# Bytes of lists, and of streams, held by each process; beyond that, clients get 429.
MAX_BULK_BYTES = 64 * 1024 * 1024
MAX_STREAM_BYTES = 64 * 1024 * 1024


class Service:
    """The ASGI application of one process."""

    def __init__(
        self,
        settings: ApiSettings,
        batch: BatchSettings,
        faktory: FaktorySettings,
        crawl: CrawlSettings,
        allow: AllowSettings,
        results: ResultsSettings,
        run_directory: Path,
    ) -> None:
        self._settings = settings
        self._batch = batch
        self._faktory = faktory
        self._crawl = crawl
        self._allow = allow
        self._results = results
        self._run_directory = run_directory
        self._log = get_logger("api")
        self._guard = _make_guard(settings)
        self._metrics = ApiMetrics()
        self._app = _make_app(
            self._lifespan,
            lambda schema: complete(
                schema,
                allows_unknown=settings.allow_unknown_types,
                needs_key=self._guard.has_keys,
            ),
        )
        self._parts: Parts | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, counted)
        except Problem as problem:
            await send_problem(counted, problem)
        except ClientGone:
            status = 499  # as others call it: there is nobody to answer
        except Exception:
            self._log.exception("unhandled exception")
            if not status:
                await send_problem(counted, mistake())
        finally:
            self._metrics.request_answered(_route_name(scope), status)

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        visit = read_headers(scope["headers"])
        key = self._guard.admit(scope, visit)
        parts = self._parts
        assert parts is not None, "a request before the start"
        if is_single_job(scope):
            await take_job(parts, key, visit, scope, receive, send)
            self._metrics.single_jobs.inc()
            return
        if is_many_jobs(scope):
            await take_jobs(parts, key, visit, scope, receive, send)
            return
        scope["visit"], scope["key"] = visit, key
        await self._app(scope, receive, with_security_headers(send))

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        address = parse_url(self._faktory.url)
        client = Client(address, ca_file=self._faktory.ca_file, connections=CONNECTIONS)
        try:
            await client.probe()
        except ConnectFailed as error:
            if not error.is_retryable:
                raise
            self._log.warning("the broker is away: answering 503 until it is back", why=str(error))
        client.start()
        rules = BatchRules(
            self._batch.max_size if self._batch.auto_enabled else 1, self._batch.max_delay_ms / 1000
        )
        web = httpx.AsyncClient(
            base_url=self._faktory.web_url or _web_url(address),
            auth=("", address.password) if address.password else None,
            trust_env=False,
        )
        batcher = Batcher(client, rules, self._metrics)
        self._metrics.held.set_function(lambda: batcher.held_jobs)
        crawls = await open_crawls(self._crawl, self._allow)
        results = Results(self._results.urls)
        parts = Parts(
            settings=self._settings,
            client=client,
            batcher=batcher,
            bulk=Shares(MAX_BULK_BYTES, keys=self._guard.keys),
            streams=Shares(MAX_STREAM_BYTES, keys=self._guard.keys),
            pages=ByteBudget(HELD_PAGES_BYTES),
            intake=Intake(
                shards=await self._shards(crawls),
                allows_unknown=self._settings.allow_unknown_types,
                keeps_big_integers=lambda: client.is_our_broker,
            ),
            metrics=self._metrics,
            web=web,
            run_directory=self._run_directory,
            crawls=crawls,
        )
        app.state.parts = self._parts = parts
        app.state.results = results
        _drain_on_sigterm(parts)
        async with answering(self._run_directory, self._metrics.registry), web:
            self._log.info("ready", broker=str(address), is_locked=self._guard.has_keys)
            yield
        await client.close()
        results.close()
        if parts.crawls is not None:
            await parts.crawls.close()

    async def _shards(self, crawls: CrawlService | None) -> int:
        """As many as the store has, if it can be asked. Jobs that are in the queue of another
        number of shards are forwarded by the workers."""
        if crawls is None:
            return self._crawl.shards
        try:
            return await crawls.shards()
        except Problem as problem:
            self._log.warning(
                "the number of shards is not known: CRAWL_SHARDS is taken for it",
                shards=self._crawl.shards,
                why=problem.detail,
            )
            return self._crawl.shards


def create() -> Service:
    """What uvicorn calls in each process."""
    settings, run_directory = handed_down()
    configure_logs(settings.api.log_level, service="api")
    if parent_process() is not None:
        take_in_output()
    # What is loaded now stays for ever, and jobs by the thousand make no reference cycles.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    return Service(
        settings.api,
        settings.batch,
        settings.faktory,
        settings.crawl,
        settings.allow,
        settings.results,
        run_directory,
    )


def _make_guard(settings: ApiSettings) -> Guard:
    # Each process has its share of what a key may do.
    rate = settings.rate_per_key / settings.processes
    now = time.monotonic()
    keys = parse_keys(settings.keys.get_secret_value(), rate, now)
    anybody = Key(ANYBODY.name, ANYBODY.scopes, ANYBODY.digest, make_bucket(rate, now))
    host, _ = host_and_port(settings.bind)
    return Guard(keys, host, settings.hosts, anybody)


def _make_app(
    lifespan: Callable[[FastAPI], Any], describe: Callable[[dict[str, Any]], dict[str, Any]]
) -> FastAPI:
    app = FastAPI(
        title="Manyhands",
        version=VERSION,
        summary="Takes jobs, and answers when the broker has them.",
        lifespan=lifespan,
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    for routes in (router, crawl_router, results_router):
        app.include_router(routes, dependencies=[Depends(refuse_unknown_query)])
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(Exception, _answer_mistake)
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(described())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


async def _answer_problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return Response(problem.body(), problem.status, dict(problem.headers))


async def _answer_mistake(request: Request, _: Exception) -> Response:
    return await _answer_problem(request, mistake())


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path == MANY_JOBS:
        # The router knows nothing of many.py.
        error = HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": "POST"})
    problem = Problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response = await _answer_problem(request, problem)
    response.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        _name_all_methods(request, response)
        _add_single(request, response)
    return response


def _name_all_methods(request: Request, response: Response) -> None:
    """The router names only the methods of the first route with this path."""
    allowed = {
        method
        for route in (*router.routes, *crawl_router.routes, *results_router.routes)
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    if allowed:
        response.headers["allow"] = ", ".join(sorted(allowed))


def _add_single(request: Request, response: Response) -> None:
    """The router knows nothing of single.py."""
    prefix, _, name = request.url.path.rpartition("/")
    if f"{prefix}/" != PREFIX:
        return
    if name in JOB_TYPES:
        response.headers["allow"] = "POST"
    elif parts_of(request).settings.allow_unknown_types:
        response.headers["allow"] = "GET, POST"


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"field": ".".join(map(str, problem["loc"])), "detail": problem["msg"]}
        for problem in error.errors()
    ]
    detail = f"{errors[0]['field']}: {errors[0]['detail']}"
    problem = Problem(422, detail, {"field": errors[0]["field"], "errors": errors})
    return await _answer_problem(request, problem)


def _route_name(scope: MutableMapping[str, Any]) -> str:
    """Few and fixed: strangers must not be able to add a label for every path they try."""
    if is_single_job(scope):
        return "single"
    if scope["path"] == MANY_JOBS:
        return MANY_JOBS
    route = scope.get("route")
    return getattr(route, "path", "none")


def _web_url(address: ServerAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{WEB_PORT}"


def _drain_on_sigterm(parts: Parts) -> None:
    """Streams may have no end: they are stopped, because the server waits for them."""
    loop = asyncio.get_running_loop()

    def chain(number: signal.Signals) -> None:
        following = signal.getsignal(number)

        def drain(received: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(parts.begin_draining)
            if callable(following):
                following(received, frame)

        signal.signal(number, drain)

    with contextlib.suppress(ValueError):  # not in the main thread: a test
        for number in (signal.SIGTERM, signal.SIGINT):
            chain(number)
