"""One socket: answers in order, writes joined, and every failed dial explained in one line."""

import asyncio
import fcntl
import socket
import ssl
import termios
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from manyhands.shared.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    FaktoryError,
    ProtocolError,
)
from manyhands.shared.faktory.codec import ErrorReply, Reply
from manyhands.shared.faktory.connection import ANSWERS_TOGETHER, Connection, dial, tls_context
from manyhands.shared.faktory.handshake import ServerAddress
from tests.support.fake_transport import FakeTransport, logged_in
from tests.support.scripted_server import (
    GREETING,
    HI,
    OK,
    Close,
    Drip,
    Expect,
    Say,
    ScriptedServer,
    Silence,
    Step,
    eventually,
)

PASSWORD = "hunter2"


class Owner:
    """What a lane would be told."""

    def __init__(self, connection: Connection) -> None:
        self.replies: list[tuple[object, Reply]] = []
        self.lost: list[FaktoryError] = []
        self.writable = 0
        connection.attach(self.take, self.lost.append, self.can_write)

    def take(self, token: object, reply: Reply) -> None:
        self.replies.append((token, reply))

    def can_write(self) -> None:
        self.writable += 1


async def turn() -> None:
    """Let what was scheduled for the end of this loop turn happen."""
    await asyncio.sleep(0)


async def test_answers_go_to_their_commands_in_order():
    connection, _ = logged_in()
    owner = Owner(connection)
    for token in ("first", "second", "third"):
        connection.send(b"INFO\r\n", token)
    connection.data_received(b"+OK\r\n$2\r\nab")
    connection.data_received(b"\r\n-ERR no\r\n")
    assert owner.replies == [
        ("first", "OK"),
        ("second", b"ab"),
        ("third", ErrorReply("ERR", "no")),
    ]
    assert not connection.awaiting


async def test_an_answer_that_nobody_asked_for_closes_the_connection():
    connection, transport = logged_in()
    owner = Owner(connection)
    connection.send(b"INFO\r\n", "one")
    connection.data_received(b"+OK\r\n+OK\r\n")
    assert owner.replies == [("one", "OK")]
    assert transport.is_aborted
    assert [type(reason) for reason in owner.lost] == [ProtocolError]


@pytest.mark.parametrize(
    "refusal", [b"-ERR too many connections: 2001\r\n", b"-ERR shutdown in progress\r\n"]
)
async def test_a_refusal_closes_the_connection_and_is_nobodys_answer(refusal):
    connection, transport = logged_in()
    owner = Owner(connection)
    connection.send(b"ACK {}\r\n", "kept")
    connection.data_received(refusal)
    assert owner.replies == []
    assert list(connection.awaiting) == ["kept"]
    assert transport.is_aborted
    assert [type(reason) for reason in owner.lost] == [ConnectionLost]


async def test_bytes_that_are_no_protocol_close_the_connection():
    connection, transport = logged_in()
    owner = Owner(connection)
    connection.send(b"INFO\r\n", "one")
    connection.data_received(b"HTTP/1.1 200 OK\r\n")
    assert transport.is_aborted
    assert [type(reason) for reason in owner.lost] == [ProtocolError]
    assert owner.replies == []


async def test_a_connection_that_its_owner_closes_in_an_answer_gives_no_further_ones():
    connection, _ = logged_in()
    got: list[object] = []

    def take(token: object, _reply: Reply) -> None:
        got.append(token)
        connection.close()

    connection.attach(take, lambda _reason: None, lambda: None)
    connection.send(b"A\r\n", "first")
    connection.send(b"B\r\n", "second")
    connection.data_received(b"+OK\r\n+OK\r\n")
    assert got == ["first"]


async def test_the_lines_of_one_loop_turn_are_one_write():
    connection, transport = logged_in()
    Owner(connection)
    connection.send(b"A\r\n", 1)
    connection.send(b"B\r\n", 2)
    assert transport.writes == []
    await turn()
    connection.send(b"C\r\n", 3)
    await turn()
    await turn()
    assert transport.writes == [b"A\r\nB\r\n", b"C\r\n"]


async def test_a_connection_closed_before_the_turn_ends_writes_nothing():
    connection, transport = logged_in()
    Owner(connection)
    connection.send(b"A\r\n", 1)
    connection.close()
    await turn()
    assert transport.writes == []


async def test_a_full_socket_is_not_sent_to_until_it_is_writable_again():
    connection, _ = logged_in()
    owner = Owner(connection)
    assert connection.can_send
    connection.pause_writing()
    assert not connection.can_send
    assert owner.writable == 0
    connection.resume_writing()
    assert connection.can_send
    assert owner.writable == 1


async def test_only_a_connection_that_owes_an_answer_is_overdue():
    connection, _ = logged_in()
    Owner(connection)
    now = asyncio.get_running_loop().time()
    assert not connection.is_overdue(now + 1000, patience_s=12)
    connection.send(b"INFO\r\n", "one")
    assert not connection.is_overdue(now + 11, patience_s=12)
    assert connection.is_overdue(now + 13, patience_s=12)
    connection.data_received(b"+OK\r\n")
    assert not connection.is_overdue(now + 1000, patience_s=12)


async def test_half_an_answer_is_progress():
    connection, _ = logged_in()
    Owner(connection)
    connection.send(b"INFO\r\n", "one")
    connection.progress_at -= 100
    now = asyncio.get_running_loop().time()
    assert connection.is_overdue(now, patience_s=12)
    connection.data_received(b"$100\r\nabc")
    assert not connection.is_overdue(now, patience_s=12)


async def test_a_connection_that_we_do_not_read_is_not_overdue():
    connection, transport = logged_in()
    Owner(connection)
    connection.send(b"INFO\r\n", "one")
    connection.pause_reading()
    assert transport.is_paused
    now = asyncio.get_running_loop().time()
    assert not connection.is_overdue(now + 1000, patience_s=12)
    connection.progress_at -= 1000
    connection.resume_reading()
    assert not transport.is_paused
    assert not connection.is_overdue(now + 5, patience_s=12)


async def test_closing_fails_the_waiters():
    connection, transport = logged_in()
    waiting = [asyncio.create_task(connection.request(b"INFO\r\n")) for _ in range(2)]
    await turn()
    connection.close("enough")
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(result) for result in results] == ["enough", "enough"]
    assert all(isinstance(result, ConnectionLost) for result in results)
    assert transport.is_aborted


async def test_a_request_on_a_lost_connection_fails_at_once():
    connection, _ = logged_in()
    connection.connection_lost(None)
    with pytest.raises(ConnectionLost):
        await connection.request(b"INFO\r\n")


async def test_the_loss_is_told_once_and_the_first_reason_counts():
    connection, _ = logged_in()
    owner = Owner(connection)
    connection.close("first")
    connection.connection_lost(OSError("second"))
    connection.close("third")
    assert [str(reason) for reason in owner.lost] == ["first"]


async def test_a_loss_before_the_lane_attached_is_told_to_it():
    connection, _ = logged_in()
    connection.connection_lost(None)
    owner = Owner(connection)
    assert owner.lost == []
    await turn()
    assert [type(reason) for reason in owner.lost] == [ConnectionLost]


async def test_a_dead_host_is_found_by_keepalive():
    transport = FakeTransport()
    connection = Connection()
    connection.connection_made(transport)
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in transport.socket.options
    connection.data_received(b"+HI {}\r\n")


# Dialling


async def failure(
    address: ServerAddress, tls: ssl.SSLContext | None = None, timeout_s: float = 5
) -> ConnectFailed:
    """The error of a dial that must fail: one line, with the address, without the password."""
    with pytest.raises(ConnectFailed) as refused:
        await dial(address, tls, timeout_s=timeout_s)
    text = str(refused.value)
    assert str(address) in text
    assert PASSWORD not in text
    assert "\n" not in text
    return refused.value


# Answers that nobody waits for


@asynccontextmanager
async def eight_results(*answers: Step) -> AsyncIterator[tuple[Connection, Owner]]:
    """As many results as are answered together, sent to a server that gives these answers."""
    expected = [Expect(b"ACK")] * ANSWERS_TOGETHER
    async with ScriptedServer((*GREETING, *expected, *answers)) as server:
        connection = await dial(server.address(), None)
        owner = Owner(connection)
        for number in range(ANSWERS_TOGETHER):
            connection.send(b"ACK {}\r\n", number, is_urgent=False)
        try:
            yield connection, owner
        finally:
            connection.close()


def unread_bytes(connection: Connection) -> int:
    """What the kernel has for us."""
    assert connection._transport is not None
    descriptor = connection._transport.get_extra_info("socket").fileno()
    size = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return size[0]


async def test_answers_to_results_are_taken_together():
    rest = asyncio.Event()
    some, others = Say(b"+OK\r\n" * 3), Say(b"+OK\r\n" * (ANSWERS_TOGETHER - 3))
    async with eight_results(some, Silence(rest), others) as (connection, owner):
        await eventually(lambda: unread_bytes(connection) == len(some.data))
        assert owner.replies == []
        rest.set()
        await eventually(lambda: len(owner.replies) == ANSWERS_TOGETHER)


async def test_answers_that_lie_about_are_taken_in_a_hurry():
    async with eight_results(Say(b"+OK\r\n" * 3)) as (connection, owner):
        await eventually(lambda: unread_bytes(connection) == 3 * len(b"+OK\r\n"))
        connection.hurry()
        await eventually(lambda: len(owner.replies) == 3)


async def test_once_few_answers_are_owed_each_is_taken_as_it_comes():
    refused = Say(b"-ERR no such job, and this is said at some length\r\n")
    async with eight_results(refused, OK) as (_, owner):
        await eventually(lambda: len(owner.replies) == 2)


async def test_a_connection_that_breaks_while_answers_lie_about_is_noticed():
    async with eight_results(OK, Close()) as (_, owner):
        await eventually(lambda: owner.lost)


async def test_an_answer_that_somebody_waits_for_is_taken_at_once():
    async with eight_results(*[OK] * 2) as (connection, owner):
        connection.send(b"ACK {}\r\n", "urgent")
        await eventually(lambda: len(owner.replies) == 2)


async def test_a_dial_logs_in():
    async with ScriptedServer(GREETING) as server:
        connection = await dial(server.address(), None, wid="w1")
        assert b'"wid":"w1"' in server.lines[0][0]
        assert connection.round_trip_s > 0
        assert connection.lost_reason is None
        connection.close()


async def test_a_server_that_drips_its_words_is_understood():
    script: tuple[Step, ...] = (Drip(b'+HI {"v":2,"mh":1}\r\n'), Expect(b"HELLO"), Drip(b"+OK\r\n"))
    async with ScriptedServer(script) as server:
        connection = await dial(server.address(), None)
        assert connection.server.is_our_broker
        connection.close()


async def test_a_password_is_hashed_into_the_hello():
    hi = Say(b'+HI {"v":2,"i":1545,"s":"55104dc76695721d"}\r\n')
    async with ScriptedServer((hi, Expect(b"HELLO"), OK)) as server:
        (await dial(server.address(password="foobar"), None)).close()
        assert (
            b"6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30"
            in (server.lines[0][0])
        )


async def test_a_refused_port_is_worth_another_try():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = ServerAddress("127.0.0.1", taken.getsockname()[1], password=PASSWORD)
        error = await failure(address)
    assert error.is_retryable
    assert "is the server running" in str(error)


async def test_a_web_server_is_no_faktory():
    async with ScriptedServer((Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"),)) as server:
        error = await failure(server.address(password=PASSWORD))
    assert not error.is_retryable
    assert "not a Faktory server" in str(error)


async def test_a_silent_server_is_hinted_to_want_tls():
    async with ScriptedServer((Silence(),)) as server:
        error = await failure(server.address(password=PASSWORD), timeout_s=0.05)
    assert error.is_retryable
    assert "tcp+tls://" in str(error)


async def test_a_server_that_is_silent_after_hello_times_out():
    async with ScriptedServer((HI, Expect(b"HELLO"), Silence())) as server:
        error = await failure(server.address(), timeout_s=0.05)
    assert error.is_retryable


async def test_a_server_that_hangs_up_is_worth_another_try():
    async with ScriptedServer((HI, Expect(b"HELLO"), Close())) as server:
        assert (await failure(server.address(password=PASSWORD))).is_retryable


async def test_a_server_at_its_connection_limit_is_said_to_be():
    full = Say(b"-ERR too many connections: 2001\r\n")
    async with ScriptedServer((HI, Expect(b"HELLO"), full, Close())) as server:
        error = await failure(server.address(password=PASSWORD))
    assert error.is_retryable
    assert "FAKTORY_CONNECTIONS" in str(error)


async def test_a_wrong_password_is_not_tried_again():
    hi = Say(b'+HI {"v":2,"i":4000,"s":"abc"}\r\n')
    refused = Say(b"-ERR Invalid password\r\n")
    async with ScriptedServer((hi, Expect(b"HELLO"), refused, Close())) as server:
        error = await failure(server.address(password=PASSWORD))
        assert PASSWORD.encode() not in server.lines[0][0]
    assert not error.is_retryable
    assert "password" in str(error)


async def test_a_missing_password_is_not_tried_again():
    async with ScriptedServer((Say(b'+HI {"v":2,"i":1,"s":"abc"}\r\n'), Silence())) as server:
        error = await failure(server.address())
    assert not error.is_retryable
    assert "needs a password" in str(error)


async def test_a_cancelled_dial_leaves_no_connection():
    async with ScriptedServer((HI, Expect(b"HELLO"))) as server:
        task = asyncio.create_task(dial(server.address(), None))
        while not server.lines or not server.lines[0]:
            await turn()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not server.closed_by_client:
            await turn()


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_tls(authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def ca_file(authority, tmp_path):
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_a_private_authority_is_trusted_when_named(server_tls, ca_file):
    async with ScriptedServer(GREETING, tls=server_tls) as server:
        address = server.address(is_tls=True)
        connection = await dial(address, tls_context(address, ca_file))
        assert connection.lost_reason is None
        connection.close()


async def test_a_certificate_that_is_not_trusted_names_the_setting(server_tls):
    async with ScriptedServer(GREETING, tls=server_tls) as server:
        address = server.address(is_tls=True, password=PASSWORD)
        error = await failure(address, tls_context(address, None))
    assert not error.is_retryable
    assert "FAKTORY_CA_FILE" in str(error)


async def test_a_certificate_for_another_host_is_refused(authority, ca_file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example").configure_cert(context)
    async with ScriptedServer(GREETING, tls=context) as server:
        address = server.address(is_tls=True, password=PASSWORD)
        error = await failure(address, tls_context(address, ca_file))
    assert not error.is_retryable


async def test_tls_to_a_plain_server_is_not_tried_again():
    async with ScriptedServer((HI, Silence())) as server:
        address = server.address(is_tls=True, password=PASSWORD)
        error = await failure(address, tls_context(address, None))
    assert not error.is_retryable
    assert "does not speak TLS" in str(error)


async def test_a_server_that_hangs_up_during_the_tls_handshake_is_worth_another_try():
    async with ScriptedServer((Close(),)) as server:
        address = server.address(is_tls=True, password=PASSWORD)
        assert (await failure(address, tls_context(address, None))).is_retryable


def test_a_ca_file_for_a_plain_url_is_a_configuration_error(ca_file):
    with pytest.raises(ConfigError, match=r"tcp\+tls"):
        tls_context(ServerAddress("h", 1), ca_file)


def test_a_ca_file_that_is_none_is_a_configuration_error(tmp_path):
    address = ServerAddress("h", 1, is_tls=True)
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        tls_context(address, tmp_path / "missing.pem")
    broken = tmp_path / "broken.pem"
    broken.write_text("this is no certificate")
    with pytest.raises(ConfigError, match=r"broken\.pem"):
        tls_context(address, broken)


def test_a_plain_url_needs_no_tls():
    assert tls_context(ServerAddress("h", 1), None) is None
