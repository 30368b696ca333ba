"""What a worker service shows over HTTP, on one port of its supervisor: metrics, health and status.

It answers GET and HEAD, and changes nothing. There is no password: it listens on loopback by
default, and shows names of queues and job types, never the content of a job. `/status` is not for
pages of other sites (shared/http/hosts.py); probes and Prometheus may use any host name.
"""

import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from manyhands.shared.errors import ConfigError
from manyhands.shared.http.hosts import is_own_host
from manyhands.shared.http.serving import listen, serving
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import host_and_port
from manyhands.shared.version import VERSION
from manyhands.worker.supervision.health import Verdict, liveness, readiness
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.stage_summary import summarize_stages
from manyhands.worker.supervision.status import ServiceStatus

VARIABLE = "WORKER_HTTP_BIND"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "HEAD")
# Probes use addresses and names of a cluster; these pages show only figures and reasons.
OPEN_PATHS = ("/metrics", "/healthz", "/readyz")

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class Page:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class Pages:
    """The ASGI application."""

    def __init__(
        self, read_status: Callable[[], ServiceStatus], metrics: ServiceMetrics, bound_to: str
    ) -> None:
        self._read_status = read_status
        self._metrics = metrics
        self._bound_to = bound_to
        self.paths: dict[str, Callable[[], Page]] = {
            "/metrics": self._show_metrics,
            "/healthz": lambda: _verdict(liveness(read_status())),
            "/readyz": lambda: _verdict(readiness(read_status())),
            "/status": lambda: _json(status_document(read_status(), metrics)),
        }

    async def __call__(self, scope: Scope, receive: object, send: Send) -> None:
        del receive
        await _send(send, self._answer(scope))

    def _answer(self, scope: Scope) -> Page:
        path: str = scope["path"]
        show = self.paths.get(path)
        if show is None:
            return _error(404, "Not Found")
        if scope["method"] not in METHODS:
            return _error(405, "Method Not Allowed", {"allow": ",".join(METHODS)})
        if path not in OPEN_PATHS and not is_own_host(host_of(scope), self._bound_to):
            return _error(403, "this page is served to names of this machine only: ask 127.0.0.1")
        try:
            return show()
        except Exception:
            get_logger("http").exception("unhandled exception in a page", path=path)
            return _error(500, "unhandled exception; the log has more")

    def _show_metrics(self) -> Page:
        return Page(self._metrics.text(self._read_status()), content_type=PROMETHEUS_TEXT)


def host_of(scope: Scope) -> str:
    return next(
        (value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), ""
    )


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
async def serve_http(
    bind: str, read_status: Callable[[], ServiceStatus], metrics: ServiceMetrics
) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port, which the system chooses when it is 0.
    Raises ConfigError when it cannot listen there."""
    listener = open_listener(bind)
    host, port = listener.getsockname()[:2]
    async with serving(Pages(read_status, metrics, host), listener):
        get_logger("http").info("metrics, health and status over HTTP", host=host, port=port)
        yield port


def open_listener(bind: str) -> socket.socket:
    """Bound here, so that an error says what to do about it."""
    try:
        host, port = host_and_port(bind)
        return listen(host, port)
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


async def _send(send: Send, page: Page) -> None:
    headers = {
        "content-type": page.content_type,
        "content-length": str(len(page.body)),
        **page.headers,
    }
    await send(
        {
            "type": "http.response.start",
            "status": page.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": page.body})


def _verdict(verdict: Verdict) -> Page:
    return _json(_verdict_document(verdict), 200 if verdict.is_ok else 503)


def _verdict_document(verdict: Verdict) -> dict[str, object]:
    said: dict[str, object] = {"status": "ok" if verdict.is_ok else "not ok"}
    said["reasons"] = verdict.reasons
    if verdict.damaged_shards:
        said["damaged_shards"] = verdict.damaged_shards
    return said


def _error(status: int, why: str, headers: dict[str, str] | None = None) -> Page:
    page = _json({"error": why}, status)
    page.headers.update(headers or {})
    return page


def _json(content: object, status: int = 200) -> Page:
    text = msgspec.json.format(msgspec.json.encode(content, enc_hook=list), indent=2) + b"\n"
    return Page(text, status)
