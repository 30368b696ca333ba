"""What the broker shows over HTTP, beside the line protocol: figures and the three sets."""

import asyncio
import base64
import contextlib
import hmac
from collections.abc import AsyncIterator, Iterable

import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from manyhands.broker.batches import SET_NAMES
from manyhands.broker.choices import EVERY_JOB
from manyhands.broker.jobs import utc_text
from manyhands.broker.store import Store
from manyhands.broker.verbs import Verbs
from manyhands.shared.budget import ByteBudget
from manyhands.shared.http.answers import HeldAnswer
from manyhands.shared.http.hosts import is_own_host
from manyhands.shared.http.limits import HELD_PAGES_BYTES, PAGE_BYTES
from manyhands.shared.http.serving import listen, serving
from manyhands.shared.memory import own_resident_bytes

PAGE = 100
MAX_PAGE = 1000
MAX_ID = 2**63 - 1
JSON = "application/json"


class Figures(Collector):
    """Read when somebody asks: nothing is counted twice."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def collect(self) -> Iterable[Metric]:
        manager, damage = self._verbs.manager, self._verbs.manager.store.damage
        queued = GaugeMetricFamily("broker_queue_jobs", "Jobs that wait", labels=["queue"])
        latency = GaugeMetricFamily(
            "broker_queue_latency_seconds", "Age of the oldest job that waits", labels=["queue"]
        )
        for queue in manager.queues.listed():
            queued.add_metric([queue.name], queue.size)
            latency.add_metric([queue.name], self._verbs.latency_s(queue.name))
        sets = GaugeMetricFamily("broker_set_jobs", "Jobs in a set", labels=["set"])
        for name in SET_NAMES:
            sets.add_metric([name], manager.store.counters[name])
        sets.add_metric(["working"], len(manager.reservations.in_hand))
        yield from (queued, latency, sets)
        for name, text, value in (
            ("broker_connections", "Clients", self._verbs.connections),
            ("broker_resident_bytes", "Memory", own_resident_bytes()),
            ("broker_held_bytes", "Held for clients", manager.store.memory.held),
            ("broker_disk_full", "1 while no job is taken", int(manager.store.is_disk_full)),
            ("broker_damaged", "1: the database is damaged", int(damage.is_there)),
            ("broker_unreadable_jobs", "Jobs in damaged pages", damage.unreadable_jobs),
            ("broker_log_was_cut", "1: answered commits are missing", int(bool(damage.lost))),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        given_back, expired = manager.reservations.given_back, manager.handout.expired_jobs
        for name, text, value in (
            ("broker_processed", "Jobs done or failed", manager.store.counters["processed"]),
            ("broker_failures", "Jobs failed", manager.store.counters["failures"]),
            ("broker_commands", "Commands run", self._verbs.commands),
            ("broker_commits", "Transactions", manager.store.commits),
            ("broker_given_back", "Jobs whose worker went away", given_back),
            (
                "broker_closed_connections",
                "Clients closed because they held too much",
                manager.store.memory.closed_connections,
            ),
            ("broker_expired_jobs", "Jobs dropped by expires_at", expired),
        ):
            yield CounterMetricFamily(name, text, value=value)


def make_app(verbs: Verbs, password: str, bound_to: str) -> Starlette:
    registry = CollectorRegistry()
    registry.register(Figures(verbs))
    held = ByteBudget(HELD_PAGES_BYTES)
    # One at a time: jobs have their turn between two pages.
    reading = asyncio.Lock()

    async def stats(_: Request) -> Response:
        return _json(verbs.state())

    async def health(_: Request) -> Response:
        return _health(verbs)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def one_set(request: Request) -> Response:
        kind = request.path_params["name"]
        if kind not in SET_NAMES:
            return _json({"error": f"no such set: use one of {', '.join(SET_NAMES)}"}, 404)
        try:
            after = min(int(request.query_params.get("after", "0")), MAX_ID)
            limit = min(max(int(request.query_params.get("limit", str(PAGE))), 1), MAX_PAGE)
        except ValueError:
            return _json({"error": "after and limit must be numbers"}, 400)
        busy = _json({"error": "too many pages are on their way already: come again"}, 503)
        busy.headers["retry-after"] = "1"
        if not held.has_room(PAGE_BYTES):
            return busy
        async with reading:
            page = _set_page(verbs, kind, after, limit)
            await asyncio.sleep(0)
        return HeldAnswer(page, held, busy, JSON)

    async def one_job(request: Request) -> Response:
        jid = request.path_params["jid"]
        state = verbs.manager.state_of(jid)
        if state is None:
            return _json({"error": f"{jid} is not known: it is done, or was never queued"}, 404)
        return _json({"jid": jid, "state": state})

    return Starlette(
        routes=[
            Route("/stats", stats),
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/sets/{name}", one_set),
            Route("/jobs/{jid}", one_job),
        ],
        middleware=[Middleware(Guarded, password=password, bound_to=bound_to)],
    )


def _health(verbs: Verbs) -> Response:
    store = verbs.manager.store
    reason = _complaint(store)
    status = {"status": reason or "ok"}
    if store.damage.lost is not None:
        status["lost"] = store.damage.lost
    return _json(verbs.health() | status, 503 if reason else 200)


def _complaint(store: Store) -> str | None:
    """Names no file: whoever asks needs no password."""
    if not store.damage.is_there:
        return store.refusal
    return (
        f"the database is damaged: {store.damage.unreadable_jobs} jobs that cannot be read are"
        " known of; INFO and the log say where, and what to do"
    )


def _set_page(verbs: Verbs, kind: str, after: int, limit: int) -> bytes:
    store = verbs.manager.store
    page = store.reader.find(kind, EVERY_JOB, after=after, limit=limit, max_bytes=PAGE_BYTES)
    jobs = [
        {"id": row.id, "at": utc_text(row.at), "job": orjson.Fragment(row.payload)}
        for row in page.rows
    ]
    following = page.rows[-1].id if page.has_more else None
    return orjson.dumps({"total": store.counters[kind], "jobs": jobs, "next": following})


class Guarded:
    """Lets in who has the password; where there is none, who asks by a name of this machine."""

    def __init__(self, app: ASGIApp, password: str, bound_to: str) -> None:
        self._app = app
        self._password = password
        self._bound_to = bound_to

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        path = request.scope["path"]
        # A probe of the machine has no password, and /health tells of no job.
        if path == "/health":
            return None
        if self._password:
            if _has_password(request, self._password):
                return None
            return Response(
                "the password is wrong or missing: use basic authentication, any user name\n",
                401,
                {"WWW-Authenticate": 'Basic realm="broker"'},
            )
        host = request.headers.get("host", "")
        # Figures are scraped under any name.
        if path == "/metrics" or is_own_host(host, self._bound_to):
            return None
        said = f"without a password only localhost is served, not {host[:100]!r}"
        return _json({"error": f"{said}: set BROKER_PASSWORD"}, 403)


def _has_password(request: Request, password: str) -> bool:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        given = base64.b64decode(value, validate=True).partition(b":")[2]
    except ValueError:
        return False
    return hmac.compare_digest(given, password.encode())


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type=JSON)


@contextlib.asynccontextmanager
async def serve_http(verbs: Verbs, host: str, port: int, password: str) -> AsyncIterator[int]:
    """Serve while the context is open; gives the port, which the system chooses when it is 0."""
    listener = listen(host, port)
    async with serving(make_app(verbs, password, host), listener):
        yield listener.getsockname()[1]
