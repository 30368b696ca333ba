"""Getting in: passwords, TLS, wrong addresses, and servers that are not there or full.

Each case through our client, and through `manyhands worker` as a process: where trying again
cannot help it ends with one clear line, elsewhere it goes on trying.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil
import pytest

from devservers import FaktoryServer
from devservers.processes import Port
from manyhands.shared.errors import ConfigError, ConnectFailed
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from tests.conftest import PASSWORD, AnyServer, StartWorker
from tests.support.ledger import Ledger
from tests.support.many_connections import connections, many_connections
from tests.support.odd_servers import listening
from tests.support.server_state import ServerState
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

NOT_FAKTORY = b"SSH-2.0-OpenSSH_9.6\r\n"
CONNECTION_LIMIT = 2000


def plain(server: AnyServer) -> str:
    """The server's URL without a password and without TLS."""
    return f"tcp://{server.host}:{server.port}"


def with_password(server: AnyServer, password: str) -> str:
    return f"tcp://:{quote(password, safe='')}@{server.host}:{server.port}"


@pytest.fixture
def deaf_url() -> Iterator[str]:
    """Of a port where nobody listens, and nobody else can meanwhile."""
    port = Port()
    yield f"tcp://127.0.0.1:{port.number}"
    port.release()


async def push(url: str, queue: str, ca_file: Path | None = None) -> str:
    async with Client(parse_url(url), ca_file=ca_file) as client:
        return await client.push(Job(jobtype="ledger", args=[1], queue=queue))


async def assert_gives_up(worker: WorkerUnderTest, *parts: str) -> None:
    """It ends by itself with an error: one line for a person, and no secret anywhere."""
    assert await worker.ended() == 1
    assert len(worker.said) == 1, worker.stderr
    line = worker.said[0]
    assert line.startswith("worker: ")
    for part in parts:
        assert part in line
    assert_no_secret(worker)


def assert_no_secret(worker: WorkerUnderTest) -> None:
    password = urlsplit(worker.env["FAKTORY_URL"]).password
    for secret in (PASSWORD, password):
        assert not secret or secret not in worker.stderr


async def assert_refused(url: str, *parts: str, ca_file: Path | None = None) -> ConnectFailed:
    """Our client does not get in, and says why without the password."""
    with pytest.raises(ConnectFailed) as caught:
        async with Client(parse_url(url), ca_file=ca_file):
            pass
    text = str(caught.value)
    for part in parts:
        assert part in text
    assert "\n" not in text
    assert PASSWORD not in text and quote(PASSWORD, safe="") not in text
    return caught.value


# Passwords


async def test_the_right_password_opens_for_the_client(
    server_with_password: AnyServer,
) -> None:
    async with Client(parse_url(server_with_password.url)) as client:
        assert (await client.info())["server"]["faktory_version"]


async def test_the_right_password_opens_for_the_worker(
    server_with_password: AnyServer, start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    jid = await push(server_with_password.url, queue)

    worker = start_worker(server_with_password.url, WORKER_QUEUES=queue)

    await eventually(lambda: [entry.jid for entry in ledger.entries] == [jid])
    assert_no_secret(worker)


async def test_the_heartbeat_logs_in_with_the_password_too(
    server_with_password: AnyServer, start_worker: StartWorker, queue: str
) -> None:
    """One connection more than lanes: the plan for one slot is a lane for each kind. One that was
    not let in would be closed, and the worker end."""
    worker = start_worker(server_with_password.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="1")

    def held() -> int:
        assert worker.exit_code is None, worker.stderr
        return sum(
            bool(connection.raddr) and connection.raddr.port == server_with_password.port
            for pid in worker.children
            for connection in psutil.Process(pid).net_connections("tcp")
        )

    await eventually(lambda: held() == 3)
    await worker.logs("taking jobs")
    assert held() == 3


async def test_a_wrong_password_is_refused_to_the_client(
    server_with_password: AnyServer,
) -> None:
    error = await assert_refused(
        with_password(server_with_password, "wrong & secret"),
        plain(server_with_password),
        "password",
        "FAKTORY_URL",
    )
    assert not error.is_retryable
    assert "wrong & secret" not in str(error)


async def test_a_wrong_password_ends_the_worker(
    server_with_password: AnyServer, start_worker: StartWorker
) -> None:
    worker = start_worker(with_password(server_with_password, "wrong-and-secret"))

    await assert_gives_up(worker, plain(server_with_password), "password", "FAKTORY_URL")


async def test_a_missing_password_is_refused_to_the_client(
    server_with_password: AnyServer,
) -> None:
    error = await assert_refused(
        plain(server_with_password), plain(server_with_password), "needs a password"
    )
    assert not error.is_retryable


async def test_a_missing_password_ends_the_worker(
    server_with_password: AnyServer, start_worker: StartWorker
) -> None:
    worker = start_worker(plain(server_with_password))

    await assert_gives_up(worker, plain(server_with_password), "needs a password", "FAKTORY_URL")


async def test_a_password_that_nobody_asks_for_does_no_harm(faktory: FaktoryServer) -> None:
    async with Client(parse_url(with_password(faktory, "not-needed"))) as client:
        assert await client.info()


async def test_the_url_may_stand_in_a_variable_that_faktory_provider_names(
    server_with_password: AnyServer, start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    await push(server_with_password.url, queue)

    start_worker(
        "tcp://127.0.0.1:1",
        FAKTORY_PROVIDER="MY_JOBS_URL",
        MY_JOBS_URL=server_with_password.url,
        WORKER_QUEUES=queue,
    )

    await eventually(lambda: ledger.notes == ["1"])


# TLS


async def test_a_client_that_trusts_the_authority_gets_in_over_tls(
    server_with_tls: AnyServer,
) -> None:
    address = parse_url(server_with_tls.url)
    async with Client(address, ca_file=server_with_tls.ca_file) as client:
        assert await client.info()


async def test_a_worker_that_trusts_the_authority_works_over_tls(
    server_with_tls: AnyServer, start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    jid = await push(server_with_tls.url, queue, server_with_tls.ca_file)

    start_worker(
        server_with_tls.url, WORKER_QUEUES=queue, FAKTORY_CA_FILE=str(server_with_tls.ca_file)
    )

    await eventually(lambda: [entry.jid for entry in ledger.entries] == [jid])


async def test_a_certificate_of_an_unknown_authority_is_refused_by_the_client(
    server_with_tls: AnyServer,
) -> None:
    error = await assert_refused(
        server_with_tls.url, server_with_tls.url, "not trusted", "FAKTORY_CA_FILE"
    )
    assert not error.is_retryable


async def test_a_certificate_of_an_unknown_authority_ends_the_worker(
    server_with_tls: AnyServer, start_worker: StartWorker
) -> None:
    worker = start_worker(server_with_tls.url)

    await assert_gives_up(worker, server_with_tls.url, "not trusted", "FAKTORY_CA_FILE")


async def test_a_certificate_for_another_name_is_refused_by_the_client(
    server_with_tls: AnyServer,
) -> None:
    """127.1 is 127.0.0.1 in short, but the certificate does not know that."""
    url = f"tcp+tls://127.1:{server_with_tls.port}"
    ca_file = server_with_tls.ca_file
    error = await assert_refused(url, url, "not trusted", "mismatch", ca_file=ca_file)
    assert not error.is_retryable


async def test_a_plain_url_to_a_server_with_tls_gets_a_hint_through_the_client(
    server_with_tls: AnyServer,
) -> None:
    error = await assert_refused(plain(server_with_tls), plain(server_with_tls), "tcp+tls://")
    assert error.is_retryable


async def test_a_plain_url_to_a_server_with_tls_gets_a_hint_in_the_workers_log(
    server_with_tls: AnyServer, start_worker: StartWorker
) -> None:
    worker = start_worker(plain(server_with_tls))

    await worker.logs("use tcp+tls://")

    worker.terminate()
    assert await worker.ended() == 0


async def test_a_tls_url_to_a_server_without_tls_is_refused_by_the_client(
    faktory: FaktoryServer,
) -> None:
    url = f"tcp+tls://{faktory.host}:{faktory.port}"
    error = await assert_refused(url, url, "does not speak TLS", "tcp://")
    assert not error.is_retryable


async def test_a_tls_url_to_a_server_without_tls_ends_the_worker(
    faktory: FaktoryServer, start_worker: StartWorker
) -> None:
    url = f"tcp+tls://{faktory.host}:{faktory.port}"
    worker = start_worker(url)

    await assert_gives_up(worker, url, "does not speak TLS", "tcp://")


# Wrong addresses and wrong settings


async def test_a_server_that_is_no_faktory_is_refused_by_the_client() -> None:
    with listening(NOT_FAKTORY) as port:
        url = f"tcp://127.0.0.1:{port}"
        error = await assert_refused(url, url, "not a Faktory server")
    assert not error.is_retryable


async def test_a_server_that_is_no_faktory_ends_the_worker(start_worker: StartWorker) -> None:
    with listening(NOT_FAKTORY) as port:
        worker = start_worker(f"tcp://127.0.0.1:{port}")
        await assert_gives_up(
            worker, f"tcp://127.0.0.1:{port}", "not a Faktory server", "check host and port"
        )


@pytest.mark.parametrize(
    ("setting", "value", "hint"),
    [
        ("FAKTORY_URL", "http://localhost:7419", "tcp://"),
        ("FAKTORY_URL", "tcp://", "no host"),
        ("FAKTORY_URL", "tcp://:secret@localhost:port", "FAKTORY_URL"),
        ("FAKTORY_CA_FILE", "/no/such/file", "tcp+tls://"),
        ("FAKTORY_PROVIDER", "NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE"),
        ("FAKTORY_PROVIDER", "tcp://:secret@localhost", "FAKTORY_PROVIDER"),
        ("FAKTORY_CONNECTIONS", "1", "FAKTORY_CONNECTIONS"),
        ("WORKER_CONCURRENCY", "0", "WORKER_CONCURRENCY"),
        ("WORKER_CONCURRENCY", "many", "WORKER_CONCURRENCY"),
        ("WORKER_QUEUES", "two words", "WORKER_QUEUES"),
        ("WORKER_QUEUES", "a:3,b", "WORKER_QUEUES"),
        ("WORKER_QUEUES", ",", "WORKER_QUEUES"),
        ("WORKER_STAGES", "fetch:2", "WORKER_STAGES"),
        ("WORKER_STAGES", "nobody:1x5", "WORKER_STAGES"),
        ("WORKER_HANDLERS", "no.such.module", "no.such.module"),
        ("WORKER_HANDLERS", "json", "no job type"),
        ("WORKER_SHUTDOWN_TIMEOUT", "-1", "WORKER_SHUTDOWN_TIMEOUT"),
        ("WORKER_LOG_LEVEL", "loud", "WORKER_LOG_LEVEL"),
    ],
)
async def test_a_wrong_setting_ends_the_worker_with_its_name(
    start_worker: StartWorker, setting: str, value: str, hint: str
) -> None:
    worker = start_worker("tcp://127.0.0.1:1", **{setting: value})

    await assert_gives_up(worker, hint)
    assert "secret" not in worker.stderr


async def test_a_ca_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="/no/such/file"):
        Client(parse_url("tcp+tls://localhost"), ca_file=Path("/no/such/file"))


# Servers that may come back


async def test_a_refused_connection_is_told_by_the_client(deaf_url: str) -> None:
    error = await assert_refused(deaf_url, deaf_url, "refuses connections")

    assert error.is_retryable


@pytest.mark.timeout(60)
async def test_a_worker_waits_for_a_server_that_is_not_up_yet(
    start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    with FaktoryServer() as server:
        server.kill()
        worker = start_worker(server.url, WORKER_QUEUES=queue)
        await worker.logs("refuses connections")
        server.start()

        jid = await push(server.url, queue)

        await eventually(lambda: [entry.jid for entry in ledger.entries] == [jid], 20)
        assert worker.has_logged(f"connected to {server.url}")


async def test_a_worker_that_never_got_through_stops_cleanly(
    start_worker: StartWorker, deaf_url: str
) -> None:
    worker = start_worker(deaf_url)
    await worker.logs("refuses connections")

    worker.terminate()

    assert await worker.ended() == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_worker_waits_for_a_server_that_says_nothing(
    start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    """A stopped process: the kernel still accepts for it, but nobody greets."""
    with FaktoryServer() as server:
        await push(server.url, queue)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            worker = start_worker(server.url, WORKER_QUEUES=queue)
            await worker.logs("says nothing", 40)
        finally:
            os.kill(server.pid, signal.SIGCONT)

        await eventually(lambda: ledger.notes == ["1"], 40)


# The server's limit of 2,000 connections


@pytest.mark.timeout(120)
async def test_a_worker_waits_for_room_at_a_server_that_has_all_its_connections(
    faktory: FaktoryServer, start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    await push(faktory.url, queue)
    with many_connections(faktory, CONNECTION_LIMIT) as held:
        await eventually(lambda: connections(held[0]) == CONNECTION_LIMIT)
        worker = start_worker(faktory.url, WORKER_QUEUES=queue)
        await worker.logs("too many connections")
        assert worker.exit_code is None
        assert ledger.entries == []

    await eventually(lambda: ledger.notes == ["1"], 30)


@pytest.mark.timeout(120)
async def test_a_full_server_is_told_once_and_not_with_every_attempt(
    faktory: FaktoryServer, start_worker: StartWorker
) -> None:
    with many_connections(faktory, CONNECTION_LIMIT):
        worker = start_worker(faktory.url)
        await worker.logs("too many connections")
        await asyncio.sleep(4)
        assert len([event for event in worker.events() if "too many" in event]) == 1
        assert not worker.has_logged("connected to")


@pytest.mark.timeout(120)
async def test_a_worker_takes_fewer_connections_where_many_are_taken(
    faktory: FaktoryServer,
    state: ServerState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    with many_connections(faktory, 1750) as held:
        worker = start_worker(faktory.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="500")
        await worker.logs("the server already has ")
        event = next(event for event in worker.events() if "instead of" in event)
        taken, wanted = [int(word) for word in event.split() if word.isdigit()][-2:]
        assert taken < wanted

        # The supervisor has one, too.
        await eventually(lambda: connections(held[0]) == 1750 + taken + 1)
        assert state.workers(worker.pid)
        job = json.dumps({"jid": "0123456789", "jobtype": "ledger", "args": [1], "queue": queue})
        assert held[0].call(f"PUSHB [{job}]") == "{}"
        await eventually(lambda: ledger.notes == ["1"])
