"""The broker as a process: puts the layers together, does what has to be done from time to time,
and stops without losing an answer."""

import asyncio
import resource
import signal
import ssl
import time
from collections.abc import Callable

from broker.clients import Clients
from broker.http import serve_http
from broker.manager import Manager
from broker.server import Server
from broker.sets import MOVED_AT_ONCE
from broker.store import Store
from broker.verbs import Verbs
from shared.errors import ConfigError, ManyhandsError
from shared.logs import get_logger
from shared.settings import BrokerSettings, host_and_port

# How late an empty FETCH may be answered, and a gone process be noticed.
TICK_S = 0.1
STOP_TIMEOUT_S = 10.0


class BrokerProcess:
    """State: the layers, and whether it is to stop."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._log = get_logger("broker")
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._broken: BaseException | None = None
        self.store = Store(settings.data, is_full_sync=settings.sync == "full", loop=self._loop)
        self.store.on_broken = self._break
        self.clients = Clients()
        now = time.time()
        self.manager = Manager(self.store, self.store.load(), now)
        for owner in {job.owner for job in self.manager.working.values() if job.owner}:
            self.clients.expect(owner, now)
        self.verbs = Verbs(self.manager, self.clients)
        self.server = Server(
            self.verbs,
            self.clients,
            password=settings.password.get_secret_value(),
            max_line=settings.max_line_bytes,
        )

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        _allow_many_connections()
        host, port = host_and_port(self._settings.bind)
        http_host, http_port = host_and_port(self._settings.http_bind)
        try:
            async with serve_http(
                self.verbs, http_host, http_port, self._settings.password.get_secret_value()
            ) as http_port:
                port = await self.server.listen(host, port, tls_context(self._settings))
                self._log.info(
                    "ready",
                    address=f"{host}:{port}",
                    http=f"{http_host}:{http_port}",
                    data=str(self._settings.data),
                    queued=sum(queue.size for queue in self.manager.queues.values()),
                    in_hand=len(self.manager.working),
                )
                tick = asyncio.create_task(self._tick(), name="tick")
                tick.add_done_callback(self._tick_ended)
                await self._stop.wait()
                tick.cancel()
                self.server.stop_listening()
                await self._flush()
        except OSError as error:
            raise ConfigError(f"cannot listen: {error}") from error
        finally:
            self.server.close_all()
            self.store.close()
        if self._broken is not None:
            raise ManyhandsError(f"the store failed: {self._broken}") from self._broken

    async def _flush(self) -> None:
        """Everything that was asked for is stored and answered."""
        if self._broken is not None:
            return
        self.manager.store_reservations(time.time(), after_s=0.0)
        stored = asyncio.Event()
        self.store.batch.when_stored.append(stored.set)
        try:
            await asyncio.wait_for(stored.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            self._log.error("not everything could be stored in time")

    async def _tick(self) -> None:
        second = 0
        while True:
            await asyncio.sleep(TICK_S)
            now = time.time()
            self.manager.end_waits(now)
            self.manager.end_hold(now)
            for owner in self.clients.take_gone(now):
                self.manager.give_back_of(owner)
            self._repeat(self.manager.queue_due, now)
            if int(now) != second:
                second = int(now)
                self._every_second(now, second)

    def _every_second(self, now: float, second: int) -> None:
        self.manager.store_reservations(now)
        self.manager.end_reservations(now)
        self.store.look_after_space()
        if second % 15 == 0:
            self.clients.close_silent(now)
            self.manager.forget_unused_queues()
            self.manager.sets.bound_dead(now)

    def _repeat(self, move: Callable[[float], int], now: float) -> None:
        """As long as whole pages are moved, go on; in other turns of the loop."""
        if move(now) >= MOVED_AT_ONCE:
            self._loop.call_soon(self._repeat, move, now)

    def _tick_ended(self, tick: asyncio.Task[None]) -> None:
        """Without it no job would become due and no reservation end: better no broker at all."""
        if not tick.cancelled() and (error := tick.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self._log.error("the store failed: stopping", reason=str(error))
        self._broken = error
        self._stop.set()


def _allow_many_connections() -> None:
    """Each is an open file, and the usual limit of a shell is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tls_context(settings: BrokerSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"BROKER_TLS_CERT and BROKER_TLS_KEY: {error}") from error
    return context
