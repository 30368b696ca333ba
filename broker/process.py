"""The broker as a process: puts the layers together, does what has to be done from time to time,
and stops without losing an answer."""

import asyncio
import resource
import signal
import sqlite3
import ssl
import time

from manyhands.broker.clients import Clients
from manyhands.broker.damage import WHAT_TO_DO, is_damage
from manyhands.broker.http import serve_http
from manyhands.broker.manager import Manager
from manyhands.broker.memory import MIB, Memory, held_limit
from manyhands.broker.server import Server
from manyhands.broker.store import Store
from manyhands.broker.verbs import Verbs
from manyhands.shared.clock import Steps
from manyhands.shared.errors import ConfigError, ManyhandsError
from manyhands.shared.logs import get_logger
from manyhands.shared.memory import give_back_large_blocks
from manyhands.shared.settings import BrokerSettings, host_and_port

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
        self._is_moving = False
        self.store = Store(
            settings.data,
            is_full_sync=settings.sync == "full",
            loop=self._loop,
            memory=_memory(settings),
        )
        self.store.on_broken = self._break
        self.clients = Clients()
        now = time.monotonic()
        self._steps = Steps(now, time.time())
        self.manager = Manager(self.store, self.store.load(), now)
        for owner in {job.owner for job in self.manager.reservations.in_hand.values() if job.owner}:
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
        give_back_large_blocks()
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
                    queued=sum(queue.size for queue in self.manager.queues.by_name.values()),
                    in_hand=len(self.manager.reservations.in_hand),
                )
                tick = asyncio.create_task(self._tick(), name="tick")
                tick.add_done_callback(self._tick_ended)
                await self._stop.wait()
                tick.cancel()
                self.server.stop_listening()
                self.server.take_no_more()
                await self._flush()
        except OSError as error:
            raise ConfigError(f"cannot listen: {error}") from error
        finally:
            self.server.close_all()
            self.store.close()
        if (failure := self._broken or self.store.failure) is not None:
            advice = f"; {WHAT_TO_DO}" if _is_damage(failure) else ""
            path = self.store.damage.path
            raise ManyhandsError(f"the store failed: {path}: {failure}{advice}") from failure

    async def _flush(self) -> None:
        """Everything that was asked for is stored and answered."""
        if self._broken is not None:
            return
        self.manager.reservations.store(time.monotonic(), after_s=0.0)
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
            now, wall = time.monotonic(), time.time()
            if step_s := self._steps.look(now, wall):
                self.manager.clock_was_set(step_s)
            self.manager.handout.end_waits(now)
            self.manager.handout.end_hold(now)
            for owner in self.clients.take_gone(now):
                self.manager.give_back_of(owner)
            self.manager.handout.look_for_room()
            self._queue_due()
            if int(now) != second:
                second = int(now)
                self._every_second(now, wall, second)

    def _every_second(self, now: float, wall: float, second: int) -> None:
        self.manager.reservations.store(now)
        self.manager.end_reservations(now)
        self.store.look_after_space()
        self.server.holders.look()
        self.manager.forget_unused_queues()
        if second % 15 == 0:
            self.clients.close_silent(now)
            self.manager.sets.bound_dead(wall)

    def _queue_due(self) -> None:
        """A page at a time, each when the one before is stored: others are stored in between."""
        if not self._is_moving and self.manager.queue_due(time.time()):
            self._is_moving = True
            self.store.batch.when_stored.append(self._moved)

    def _moved(self) -> None:
        self._is_moving = False
        self._queue_due()

    def _tick_ended(self, tick: asyncio.Task[None]) -> None:
        """Without it no job would become due and no reservation end: better no broker at all."""
        if not tick.cancelled() and (error := tick.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self._broken = error
        self._stop.set()
        self._log.error("the store failed: stopping", reason=str(error))


def _is_damage(failure: BaseException) -> bool:
    return isinstance(failure, sqlite3.Error) and is_damage(failure)


def _memory(settings: BrokerSettings) -> Memory:
    limit = held_limit(settings.memory_mb * MIB, settings.max_line_bytes)
    if limit < settings.max_line_bytes:
        missing = -(-(settings.max_line_bytes - limit) // MIB)
        raise ConfigError(
            f"BROKER_MEMORY_MB is too small for lines of {settings.max_line_bytes} bytes: set it"
            f" to {settings.memory_mb + missing} at least, or BROKER_MAX_LINE_BYTES to less"
        )
    return Memory(limit)


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
