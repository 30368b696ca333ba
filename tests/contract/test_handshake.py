"""The first two lines of a connection as a stranger sees them: greeting, HELLO, passwords, TLS."""

import contextlib
import json
import secrets
import socket
from typing import Any
from urllib.parse import quote

import pytest

from manyhands.shared.errors import ConnectFailed
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from tests.contract.conftest import Server
from tests.support.raw_client import RawClient, RawConnection


def hello(**fields: Any) -> str:
    return "HELLO " + json.dumps(fields)


def test_the_greeting_names_version_two_and_asks_for_nothing_without_a_password(
    server: Server,
) -> None:
    with RawConnection(server.url) as connection:
        assert connection.greeting["v"] == 2
        assert "s" not in connection.greeting
        assert "i" not in connection.greeting


def test_the_greeting_asks_for_a_hash_of_thousands_of_rounds(server_with_password: Server) -> None:
    with RawConnection(server_with_password.url) as connection:
        assert connection.greeting["v"] == 2
        assert 4000 <= connection.greeting["i"] < 8096
        assert len(connection.greeting["s"]) >= 8


def test_the_right_hash_opens(server_with_password: Server) -> None:
    with RawConnection(server_with_password.url) as connection:
        pwdhash = connection.pwdhash(connection.password)
        assert connection.call(hello(v=2, pwdhash=pwdhash)) == "OK"
        assert connection.info()["server"]["faktory_version"]


def test_a_user_name_and_fields_that_nobody_knows_do_no_harm(server_with_password: Server) -> None:
    with RawConnection(server_with_password.url) as connection:
        fields = {"pwdhash": connection.pwdhash(connection.password), "username": "ä b"}
        assert connection.call(hello(v=2, **fields, whatever=[1], labels=None)) == "OK"


def test_a_client_of_version_one_hashes_once(server_with_password: Server) -> None:
    with RawConnection(server_with_password.url) as connection:
        pwdhash = connection.pwdhash(connection.password, iterations=1)
        assert connection.call(hello(v=1, pwdhash=pwdhash)) == "OK"


def test_a_client_that_names_no_version_hashes_once(server_with_password: Server) -> None:
    with RawConnection(server_with_password.url) as connection:
        pwdhash = connection.pwdhash(connection.password, iterations=1)
        assert connection.call(hello(pwdhash=pwdhash)) == "OK"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("pwdhash", [None, "", "é", "0" * 64])
def test_a_wrong_hash_is_refused_in_the_words_that_clients_look_for_and_closes(
    server_with_password: Server, version: int, pwdhash: str | None
) -> None:
    with RawConnection(server_with_password.url) as connection:
        assert connection.call(hello(v=version, pwdhash=pwdhash)) == "-ERR Invalid password"
        assert connection.is_closed_by_server()


def test_the_hash_of_one_round_does_not_open_for_version_two(server_with_password: Server) -> None:
    with RawConnection(server_with_password.url) as connection:
        pwdhash = connection.pwdhash(connection.password, iterations=1)
        assert connection.call(hello(v=2, pwdhash=pwdhash)) == "-ERR Invalid password"


async def test_our_client_gets_in_with_the_password_and_not_with_another(
    server_with_password: Server,
) -> None:
    async with Client(parse_url(server_with_password.url)) as client:
        assert await client.info()
    wrong = f"tcp://:{quote('wrong', safe='')}@127.0.0.1:{server_with_password.port}"
    with pytest.raises(ConnectFailed, match="refused the password") as caught:
        async with Client(parse_url(wrong)):
            pass
    assert not caught.value.is_retryable


async def test_our_client_needs_a_password_where_one_is_asked_for(
    server_with_password: Server,
) -> None:
    with pytest.raises(ConnectFailed, match="needs a password"):
        async with Client(parse_url(f"tcp://127.0.0.1:{server_with_password.port}")):
            pass


def test_a_stranger_gets_in_over_tls(server_with_tls: Server) -> None:
    with RawClient(server_with_tls.url, ca_file=server_with_tls.ca_file) as connection:
        assert connection.info()["server"]["faktory_version"]


async def test_our_client_gets_in_over_tls_if_it_trusts_the_authority(
    server_with_tls: Server,
) -> None:
    address = parse_url(server_with_tls.url)
    async with Client(address, ca_file=server_with_tls.ca_file) as client:
        assert await client.info()
    with pytest.raises(ConnectFailed, match="not trusted"):
        async with Client(address):
            pass


async def test_a_plain_connection_to_a_server_with_tls_gets_a_hint(server_with_tls: Server) -> None:
    with pytest.raises(ConnectFailed, match=r"tcp\+tls://"):
        async with Client(parse_url(f"tcp://127.0.0.1:{server_with_tls.port}")):
            pass


def test_who_does_not_even_speak_tls_is_let_go_of(server_with_tls: Server) -> None:
    with (
        socket.create_connection(("127.0.0.1", server_with_tls.port), 20) as silent,
        contextlib.suppress(ConnectionResetError),
    ):
        assert silent.recv(1) == b""


def test_who_says_nothing_is_let_go_of_without_a_word(server: Server) -> None:
    """Within two seconds; the connection's own time-out is longer."""
    with RawConnection(server.url) as connection:
        assert connection.is_closed_by_server()


def test_half_a_hello_is_not_waited_for_either(server: Server) -> None:
    with RawConnection(server.url) as connection:
        connection._socket.sendall(b"HELLO {")
        assert connection.is_closed_by_server()


@pytest.mark.parametrize(
    "line",
    ["INFO", "", "hello {}", "HELLO", "HELLO []", "HELLO {", 'HELLO {"v":"two"}', "GET / HTTP/1"],
)
def test_who_says_something_else_is_let_go_of_without_a_word(server: Server, line: str) -> None:
    with RawConnection(server.url) as connection:
        connection.send(line)
        assert connection.is_closed_by_server()


def test_a_worker_is_counted_while_it_is_connected(server: Server) -> None:
    wid = secrets.token_hex(8)
    with RawClient(server.url) as watcher:
        before = watcher.info()["faktory"]["tasks"]["Workers"]["size"]
        with RawClient(server.url, wid=wid):
            assert watcher.info()["faktory"]["tasks"]["Workers"]["size"] == before + 1
