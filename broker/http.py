"""What the broker shows over HTTP, beside the line protocol: figures and the three sets."""

import base64
import contextlib
import hmac
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import orjson
import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from broker.batches import SET_NAMES
from broker.jobs import utc_text
from broker.verbs import Verbs, resident_kb

PAGE = 100
MAX_PAGE = 1000
MAX_ID = 2**63 - 1


class Figures(Collector):
    """Read when somebody asks: nothing is counted twice."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def collect(self) -> Iterable[Metric]:
        manager = self._verbs.manager
        queued = GaugeMetricFamily("broker_queue_jobs", "Jobs that wait", labels=["queue"])
        latency = GaugeMetricFamily(
            "broker_queue_latency_seconds", "Age of the oldest job that waits", labels=["queue"]
        )
        for queue in manager.listed_queues():
            queued.add_metric([queue.name], queue.size)
            latency.add_metric([queue.name], self._verbs.latency_s(queue.name))
        sets = GaugeMetricFamily("broker_set_jobs", "Jobs in a set", labels=["set"])
        for name in SET_NAMES:
            sets.add_metric([name], manager.store.counters[name])
        sets.add_metric(["working"], len(manager.working))
        yield from (queued, latency, sets)
        for name, text, value in (
            ("broker_connections", "Clients", self._verbs.connections),
            ("broker_resident_bytes", "Memory", resident_kb() * 1024),
            ("broker_disk_full", "1 while no job is taken", int(manager.store.is_disk_full)),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        for name, text, value in (
            ("broker_processed", "Jobs done or failed", manager.store.counters["processed"]),
            ("broker_failures", "Jobs failed", manager.store.counters["failures"]),
            ("broker_commands", "Commands run", self._verbs.commands),
            ("broker_commits", "Transactions", manager.store.commits),
            ("broker_given_back", "Jobs whose worker went away", manager.given_back),
            ("broker_expired_jobs", "Jobs dropped by expires_at", manager.expired_jobs),
        ):
            yield CounterMetricFamily(name, text, value=value)


def make_app(verbs: Verbs, password: str) -> Starlette:
    registry = CollectorRegistry()
    registry.register(Figures(verbs))

    async def stats(_: Request) -> Response:
        return _json(verbs.state())

    async def health(_: Request) -> Response:
        is_well = not verbs.manager.store.is_disk_full
        status = {"status": "ok"} if is_well else {"status": "the disk is full"}
        return _json(status, 200 if is_well else 503)

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
        rows = verbs.manager.store.reader.find(kind, "1", (), after=after, limit=limit)
        jobs = [
            {"id": row.id, "at": utc_text(row.at), "job": orjson.Fragment(row.payload)}
            for row in rows
        ]
        following = rows[-1].id if len(rows) == limit else None
        return _json({"total": verbs.manager.store.counters[kind], "jobs": jobs, "next": following})

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
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_password_check(password))],
    )


def _password_check(
    password: str,
) -> Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]:
    async def check(
        request: Request, forward: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        # A probe of the machine has no password, and /health tells nothing.
        if not password or request.url.path == "/health" or _has_password(request, password):
            return await forward(request)
        return Response(
            "the password is wrong or missing: use basic authentication, any user name\n",
            401,
            {"WWW-Authenticate": 'Basic realm="broker"'},
        )

    return check


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
    return Response(orjson.dumps(content), status, media_type="application/json")


class _Server(uvicorn.Server):
    """Signals are the broker's own affair."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


@contextlib.asynccontextmanager
async def serve_http(verbs: Verbs, host: str, port: int, password: str) -> AsyncIterator[int]:
    """Serve while the context is open; gives the port, which the system chooses when it is 0."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # Opened here: for a port that is taken, uvicorn would end the process in its own way.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    config = uvicorn.Config(
        make_app(verbs, password), lifespan="off", access_log=False, log_config=None
    )
    server = _Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield listener.getsockname()[1]
    finally:
        await server.shutdown(sockets=[listener])
