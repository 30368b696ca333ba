"""Starts the services as separate processes, and ends them. Nothing else here does."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from errno import EADDRINUSE
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from manyhands.cli.api_client import Api, api_client
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.settings.addresses import host_and_port
from manyhands.shared.settings.environment import environment
from manyhands.shared.settings.names import VARIABLE_PREFIXES, known_variables

START_S = 30.0
# A worker has 25 s to finish its fetches.
END_S = 40.0
LOOK_EVERY_S = 0.05
# Of a log, in an error.
TAIL_BYTES = 2000
ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = Path(__file__).with_name("with_parent.py")
LOOPBACK_ANY_PORT = "127.0.0.1:0"
CRAWL_HANDLERS = "manyhands.worker.handlers.crawl,manyhands.worker.handlers.parse"
ALL_HANDLERS = f"{CRAWL_HANDLERS},manyhands.worker.handlers.fetch,manyhands.worker.handlers.add"
ARCHIVE_HANDLERS = "manyhands.worker.handlers.warc,manyhands.worker.handlers.export"


class ServiceFailed(ManyhandsError):
    """A service did not start, or ended by itself."""


@dataclass(slots=True, frozen=True)
class Place:
    """The directory of everything that services write."""

    directory: Path

    @property
    def state(self) -> Path:
        return self.directory / "crawls"

    @property
    def broker_data(self) -> Path:
        return self.directory / "broker"

    def log_of(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def make(self) -> None:
        """Raises ServiceFailed."""
        try:
            (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceFailed(f"cannot write to {self.directory}: {error.strerror}") from error


@dataclass(slots=True, frozen=True)
class Service:
    """A running process. Its output goes to its log, behind that of earlier runs."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    log_start: int

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None

    @property
    def lingers(self) -> bool:
        """It has ended, but something that it had started has not."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def said(self) -> bytes:
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read()

    def failed(self, what: str) -> ServiceFailed:
        tail = self.said()[-TAIL_BYTES:].decode(errors="replace")
        return ServiceFailed(f"the {self.name} {what}: {last_words(tail)} (log: {self.log})")

    def check(self) -> None:
        """Raises ServiceFailed when it has ended."""
        if self.has_ended:
            raise self.failed(f"ended with {self.process.returncode}")

    async def line(self, has: bytes, on_wait: Callable[[float], None] | None = None) -> Any:
        """The first JSON line that has this text. `on_wait` gets the seconds so far."""
        started_at = time.monotonic()
        while True:
            is_last_look = self.has_ended
            for line in self.said().splitlines(keepends=True):
                if has in line and line.endswith(b"\n"):
                    return orjson.loads(line)
            waited_s = time.monotonic() - started_at
            if is_last_look or (on_wait is None and waited_s > START_S):
                raise self.failed("did not start")
            if on_wait is not None:
                on_wait(waited_s)
            await asyncio.sleep(LOOK_EVERY_S)


def last_words(log: str) -> str:
    """The last error in a log, or else its last line, in one line."""
    lines = [line for line in log.splitlines() if line.strip()]
    if not lines:
        return "it said nothing"
    told = [_told(line) for line in lines]
    errors = [one for one in told if one.get("level") in ("error", "critical")]
    if not errors:
        return str(told[-1].get("event") or lines[-1].strip())
    reason = errors[-1].get("reason") or errors[-1].get("error")
    return f"{errors[-1].get('event')}: {reason}" if reason else str(errors[-1].get("event"))


def _told(line: str) -> Mapping[str, Any]:
    """Empty: it is no line of a log."""
    try:
        told = orjson.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def service(
    name: str, place: Place, settings: Mapping[str, str]
) -> AbstractAsyncContextManager[Service]:
    """`manyhands name` with these settings and no others."""
    return _process(name, place, settings, "manyhands", name)


@asynccontextmanager
async def _process(
    name: str, place: Place, settings: Mapping[str, str], *command: str
) -> AsyncIterator[Service]:
    """`python -m command`; ended with SIGTERM, or killed when our own command must end at once. It
    runs without the user's variables and in another directory, because those and the files of the
    current directory are meant for the user's own services. It has its own session: Ctrl-C goes to
    the command, which ends its services in order."""
    log = place.log_of(name)
    others = {
        key: value for key, value in environment().items() if not key.startswith(VARIABLE_PREFIXES)
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())),
            *(sys.executable, "-m", *command),
            cwd=place.directory,
            env={**others, **settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        started = Service(name, process, log, output.tell())
    try:
        yield started
    except asyncio.CancelledError:
        _kill(process)
        raise
    finally:
        await end(started)


async def end(started: Service) -> None:
    """Does nothing if it has ended."""
    process = started.process
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        _kill(process)
        await process.wait()
    except asyncio.CancelledError:
        _kill(process)
        await process.wait()
        raise


def _kill(process: asyncio.subprocess.Process) -> None:
    """With everything that it has started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@dataclass(slots=True, frozen=True)
class Broker:
    service: Service
    address: str
    http: str
    password: str = ""

    @property
    def url(self) -> str:
        return f"tcp://{self.address}"

    @property
    def settings(self) -> dict[str, str]:
        """Of the services that use it."""
        login = f":{quote(self.password, safe='')}@" if self.password else ""
        return {
            "FAKTORY_URL": f"tcp://{login}{self.address}",
            "FAKTORY_WEB_URL": f"http://{login}{self.http}",
        }


@asynccontextmanager
async def broker(place: Place, settings: Mapping[str, str] | None = None) -> AsyncIterator[Broker]:
    """Raises ServiceFailed."""
    given = {"BROKER_BIND": LOOPBACK_ANY_PORT, "BROKER_HTTP_BIND": LOOPBACK_ANY_PORT}
    given |= settings or {}
    given |= {"BROKER_DATA": str(place.broker_data)}
    password = _password(given)
    async with service("broker", place, given) as started:
        ready = await started.line(b'"event": "ready"')
        yield Broker(started, ready["address"], ready["http"], password)


def _password(settings: Mapping[str, str]) -> str:
    file = settings.get("BROKER_PASSWORD_FILE")
    if not file:
        return settings.get("BROKER_PASSWORD", "")
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise ServiceFailed(f"BROKER_PASSWORD_FILE: {file}: {error.strerror}") from error


@dataclass(slots=True, frozen=True)
class ApiService:
    service: Service
    url: str
    api: Api


@asynccontextmanager
async def api(
    place: Place, broker: Broker, settings: Mapping[str, str] | None = None
) -> AsyncIterator[ApiService]:
    """Yields a client for it once it is ready."""
    given = {"API_BIND": f"127.0.0.1:{_free_port()}", "API_LOG_LEVEL": "warning"}
    given |= settings or {}
    given |= broker.settings | {"CRAWL_STATE": str(place.state)}
    url = f"http://{given['API_BIND']}"
    async with (
        service("api", place, given) as started,
        api_client(url) as client,
    ):
        await _until_ready(started, f"{url}/readyz")
        yield ApiService(started, url, client)


@dataclass(slots=True, frozen=True)
class Worker:
    service: Service
    # Of its /status and /metrics.
    url: str


@asynccontextmanager
async def worker(
    place: Place, broker: Broker, settings: Mapping[str, str]
) -> AsyncIterator[Worker]:
    """Yields it once it runs; its processes may still be starting."""
    given = {"WORKER_HTTP_BIND": LOOPBACK_ANY_PORT, **settings}
    given |= broker.settings | {"CRAWL_STATE": str(place.state)}
    async with service("worker", place, given) as started:
        listening = await started.line(b"metrics, health and status over HTTP")
        yield Worker(started, f"http://{listening['host']}:{listening['port']}")


@dataclass(slots=True, frozen=True)
class Site:
    """A made-up web: where a crawl of it begins, its pages, and what a worker needs to find it."""

    seeds: Sequence[str]
    pages: int
    worker_settings: Mapping[str, str]


@dataclass(slots=True, frozen=True)
class Web:
    """The process that serves one."""

    service: Service

    async def ready(self, on_wait: Callable[[float], None]) -> Site:
        """On a machine where it never ran, it is built first."""
        told = await self.service.line(b'"event":"ready"', on_wait)
        return Site(told["seeds"], told["pages"], told["worker_settings"])

    async def verdict(self) -> Any:
        """End it and return its report on its visitors."""
        await end(self.service)
        return await self.service.line(b'"event":"verdict"')


@asynccontextmanager
async def web(place: Place, *arguments: str) -> AsyncIterator[Web]:
    """Yields it at once: other services can start at the same time."""
    path = os.pathsep.join(filter(None, (str(ROOT), environment().get("PYTHONPATH"))))
    command = ("loadtest", "web", *arguments)
    async with _process("loadtest", place, {"PYTHONPATH": path}, *command) as started:
        yield Web(started)


async def _until_ready(started: Service, url: str) -> None:
    end_at = time.monotonic() + START_S
    async with httpx.AsyncClient() as client:
        while time.monotonic() < end_at and not started.has_ended:
            with suppress(httpx.TransportError):
                if (await client.get(url)).is_success:
                    return
            await asyncio.sleep(LOOK_EVERY_S)
    raise started.failed("did not start")


def check_free(variable: str, address: str) -> None:
    """Before anything starts, and before somebody else who listens there is taken for ours. Raises
    ServiceFailed."""
    try:
        host, port = host_and_port(address)
        if port:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host, port), family=family).close()
    except ValueError as error:
        raise ServiceFailed(f"{variable}: {error}") from None
    except OSError as error:
        raise ServiceFailed(
            f"{variable}={address}: {error.strerror}; set another one"
            + (", or is `manyhands up` running already?" if error.errno == EADDRINUSE else "")
        ) from error


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def variables(*sections: str) -> dict[str, str]:
    """The user's own variables for these sections of the settings."""
    prefixes = tuple(f"{section.upper()}_" for section in sections)
    known = known_variables(sections)
    return {
        name: value
        for name, value in environment().items()
        if name in known or name.startswith(prefixes)
    }


def results_of(worker_settings: Mapping[str, str]) -> dict[str, str]:
    """For the API: where the records of such a worker are read back from, unless the user says."""
    sinks = ("SINKS", "SINKS_FILE")
    theirs = {
        name.replace("SINKS", "RESULTS"): worker_settings[name]
        for name in sinks
        if name in worker_settings
    }
    return variables("results") or theirs


def sinks(*more: str) -> dict[str, str]:
    """The user's SINKS, and more of them."""
    given = variables("sinks")
    return given | {"SINKS": ",".join(filter(None, (*more, given.get("SINKS"))))}
