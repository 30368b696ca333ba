"""What a worker service shows over HTTP, on one port of its supervisor: metrics, health and status.

It answers GET and HEAD, and changes nothing. There is no password: it listens on loopback unless
told otherwise, and shows names of queues and job types, never what is in a job.
"""

import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from aiohttp import web

from shared.errors import ConfigError
from shared.logs import get_logger
from shared.settings import host_and_port
from shared.version import VERSION
from worker.supervision.health import Verdict, liveness, readiness
from worker.supervision.metrics import ServiceMetrics
from worker.supervision.stage_summary import summarize_stages
from worker.supervision.status import ServiceStatus

VARIABLE = "WORKER_HTTP_BIND"
# For answers that are on their way when the service ends.
SHUTDOWN_TIMEOUT_S = 1.0
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(read_status: Callable[[], ServiceStatus], metrics: ServiceMetrics) -> web.Application:
    async def show_metrics(_: web.Request) -> web.Response:
        text = metrics.text(read_status())
        return web.Response(body=text, headers={"Content-Type": PROMETHEUS_TEXT})

    async def show_liveness(_: web.Request) -> web.Response:
        return _verdict(liveness(read_status()))

    async def show_readiness(_: web.Request) -> web.Response:
        return _verdict(readiness(read_status()))

    async def show_status(_: web.Request) -> web.Response:
        return _json(status_document(read_status(), metrics))

    app = web.Application(middlewares=[_say_errors_in_json])
    app.on_response_prepare.append(_hide_server)
    app.add_routes(
        [
            web.get("/metrics", show_metrics),
            web.get("/healthz", show_liveness),
            web.get("/readyz", show_readiness),
            web.get("/status", show_status),
        ]
    )
    return app


def status_document(status: ServiceStatus, metrics: ServiceMetrics) -> dict[str, object]:
    """Everything that the supervisor knows, and a line for each stage."""
    rates = metrics.jobs_per_second()
    return {
        "version": VERSION,
        "health": _verdict_document(liveness(status)),
        "ready": _verdict_document(readiness(status)),
        "stages": [
            msgspec.to_builtins(stage)
            | {"jobs_per_second": round(rates.get((stage.process_type, stage.name), 0.0), 1)}
            for stage in summarize_stages(status)
        ],
        "service": status,
    }


@contextlib.asynccontextmanager
async def serve_http(bind: str, app: web.Application) -> AsyncIterator[int]:
    """Serve while the context is open; gives the port, which the system chooses when it is 0.
    Raises ConfigError when nothing can listen there."""
    listener = open_listener(bind)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_quiet_logger(),
        shutdown_timeout=SHUTDOWN_TIMEOUT_S,
    )
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        host, port = listener.getsockname()[:2]
        get_logger("http").info("metrics, health and status over HTTP", host=host, port=port)
        yield port
    finally:
        await runner.cleanup()
        listener.close()


def open_listener(bind: str) -> socket.socket:
    """Bound here: the error then says what to do about it."""
    try:
        host, port = host_and_port(bind)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except ValueError as error:
        raise ConfigError(f"{VARIABLE}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{VARIABLE}={bind}: {_explain(error, host)}") from error


def _explain(error: OSError, host: str) -> str:
    if error.errno == errno.EADDRINUSE:
        shown = f"[{host}]" if ":" in host else host
        return (
            "something listens there already, maybe another worker; "
            f"set another port, or {shown}:0 for any that is free"
        )
    return f"cannot listen there: {error.strerror or error}"


def _quiet_logger() -> logging.Logger:
    """For aiohttp, which would write a traceback for every request that is no HTTP. What goes wrong
    in our own code is logged by `_say_errors_in_json`."""
    logger = logging.getLogger("worker.http")
    logger.setLevel(logging.CRITICAL)
    return logger


async def _hide_server(_: web.Request, response: web.StreamResponse) -> None:
    """Nobody needs to know which version of what answers here."""
    response.headers.popall("Server", None)


@web.middleware
async def _say_errors_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        allowed = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else {}
        return _json({"error": refusal.reason}, refusal.status, allowed)
    except Exception:
        get_logger("http").exception("an answer could not be made", path=request.path)
        return _json({"error": "an answer could not be made; the log says why"}, 500)


def _verdict(verdict: Verdict) -> web.Response:
    return _json(_verdict_document(verdict), 200 if verdict.is_ok else 503)


def _verdict_document(verdict: Verdict) -> dict[str, object]:
    return {"status": "ok" if verdict.is_ok else "not ok", "reasons": verdict.reasons}


def _json(
    content: object, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    text = msgspec.json.format(msgspec.json.encode(content, enc_hook=list), indent=2) + b"\n"
    return web.Response(
        body=text, status=status, content_type="application/json", headers=headers or {}
    )
