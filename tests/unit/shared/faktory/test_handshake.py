"""From a URL to a HELLO: what is accepted, what is refused, and that no password is ever shown."""

import os
import socket

import orjson
import pytest

from manyhands.shared.errors import ConfigError, ConnectFailed, ProtocolError
from manyhands.shared.faktory import handshake
from manyhands.shared.faktory.codec import ErrorReply, Reply
from manyhands.shared.faktory.handshake import ServerAddress, ServerHello, parse_hi, parse_url

PASSWORD = "hunter2"
ADDRESS = ServerAddress("faktory.example", 7419, password=PASSWORD)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://localhost:7419", ServerAddress("localhost", 7419)),
        ("tcp://localhost", ServerAddress("localhost", 7419)),
        ("tcp://localhost:1234/", ServerAddress("localhost", 1234)),
        ("tcp://:secret@10.0.0.1:7420", ServerAddress("10.0.0.1", 7420, password="secret")),
        ("tcp+tls://h.example", ServerAddress("h.example", 7419, is_tls=True)),
        ("tcp://[::1]:7419", ServerAddress("::1", 7419)),
        ("tcp+tls://:pw@[fe80::2]", ServerAddress("fe80::2", 7419, is_tls=True, password="pw")),
        (
            "tcp://proxy:p%40ss%2Fw%23rd%25@h:1",
            ServerAddress("h", 1, password="p@ss/w#rd%", username="proxy"),
        ),
        ("tcp://:a+b@h", ServerAddress("h", 7419, password="a+b")),
        ("tcp://:%C3%A4@h", ServerAddress("h", 7419, password="ä")),
        ("tcp://us%20er@h", ServerAddress("h", 7419, username="us er")),
    ],
)
def test_a_url_is_read(url, expected):
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"http://:{PASSWORD}@host:7419", "tcp://"),
        (f"redis://:{PASSWORD}@host", "redis"),
        ("localhost:7419", "tcp://"),
        ("", "tcp://"),
        (f"tcp://:{PASSWORD}@", "host"),
        (f"tcp://:{PASSWORD}@:7419", "host"),
        (f"tcp://:{PASSWORD}@host:port", "FAKTORY_URL"),
        (f"tcp://:{PASSWORD}@host:70000", "FAKTORY_URL"),
        (f"tcp://:{PASSWORD}@host:-1", "FAKTORY_URL"),
        (f"tcp://:{PASSWORD}@[::1", "FAKTORY_URL"),
    ],
)
def test_a_bad_url_is_a_configuration_error_that_shows_no_password(url, says):
    with pytest.raises(ConfigError) as refused:
        parse_url(url)
    assert says in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        f"tcp://:{PASSWORD}/x@host:7419",
        f"tcp://:{PASSWORD}#x@host:7419",
        f"tcp://:{PASSWORD}?x@host:7419",
        f"tcp://:{PASSWORD}℀@host:7419",
    ],
)
def test_a_password_with_unescaped_characters_is_not_shown_in_the_error(url):
    with pytest.raises(ConfigError) as refused:
        parse_url(url)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (ServerAddress("h", 7419, password=PASSWORD), "tcp://h:7419"),
        (ServerAddress("h", 1, is_tls=True, password=PASSWORD, username="u"), "tcp+tls://h:1"),
        (ServerAddress("::1", 7419, password=PASSWORD), "tcp://[::1]:7419"),
    ],
)
def test_an_address_shows_itself_without_the_password(address, shown):
    assert str(address) == shown
    assert f"{address}" == shown
    assert shown in repr(address)
    assert PASSWORD not in repr(address) + repr([address]) + f"{address!r:>80}"


def test_the_password_hash_is_the_servers_own():
    assert (
        handshake.password_hash("foobar", "55104dc76695721d", 1545)
        == "6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30"
    )


def test_a_server_without_password_says_hi():
    assert parse_hi('HI {"v":2}', ADDRESS) == ServerHello(salt="", iterations=1, extensions=0)


def test_a_server_with_password_says_its_salt_and_rounds():
    hello = parse_hi('HI {"v":2,"i":5000,"s":"abc"}', ADDRESS)
    assert hello == ServerHello(salt="abc", iterations=5000)


@pytest.mark.parametrize(
    ("hi", "keeps"),
    [('HI {"v":2}', False), ('HI {"v":2,"mh":0}', False), ('HI {"v":2,"mh":1}', True)],
)
def test_only_a_server_that_says_so_keeps_big_integers(hi, keeps):
    assert parse_hi(hi, ADDRESS).is_our_broker is keeps


@pytest.mark.parametrize("rounds", [0, -1, 10**9, handshake.MAX_HASH_ITERATIONS + 1])
def test_a_hostile_number_of_rounds_is_refused_for_good(rounds):
    with pytest.raises(ConnectFailed) as refused:
        parse_hi(f'HI {{"v":2,"i":{rounds},"s":"abc"}}', ADDRESS)
    assert not refused.value.is_retryable
    assert str(ADDRESS) in str(refused.value)


def test_as_many_rounds_as_we_do_are_accepted():
    most = handshake.MAX_HASH_ITERATIONS
    assert parse_hi(f'HI {{"v":2,"i":{most},"s":"a"}}', ADDRESS).iterations == most


@pytest.mark.parametrize(
    "reply",
    [
        "HI",
        "HI ",
        "HI nonsense",
        "HI []",
        "HI 7",
        'HI {"v":2,"i":"many"}',
        'HI {"v":2,"i":null}',
        'HI {"v":2,"i":[1]}',
        'HI {"v":2,"i":1e400}',
        'HI {"v":2,"mh":{}}',
        "OK",
        b'HI {"v":2}',
        None,
        7,
    ],
)
def test_a_first_word_that_is_no_hi_is_a_protocol_error(reply: Reply):
    with pytest.raises(ProtocolError):
        parse_hi(reply, ADDRESS)


def test_an_error_instead_of_hi_is_worth_another_try():
    with pytest.raises(ConnectFailed, match="come back later") as refused:
        parse_hi(ErrorReply("ERR", "come back later"), ADDRESS)
    assert refused.value.is_retryable
    assert str(ADDRESS) in str(refused.value)


def hello_fields(server: ServerHello, address: ServerAddress, wid: str | None) -> dict[str, object]:
    line = handshake.hello_line(server, address, wid)
    assert line.startswith(b"HELLO {")
    fields: dict[str, object] = orjson.loads(line.removeprefix(b"HELLO "))
    return fields


def test_a_producer_says_who_it_is_but_no_worker_id():
    fields = hello_fields(ServerHello(), ServerAddress("h", 1), None)
    assert fields["v"] == 2
    assert fields["pid"] == os.getpid()
    assert fields["hostname"] == socket.gethostname()
    assert not {"wid", "pwdhash", "username"} & set(fields)


def test_a_worker_says_its_id_and_the_user_name_of_the_url():
    fields = hello_fields(ServerHello(), ServerAddress("h", 1, username="route"), "w1")
    assert fields["wid"] == "w1"
    assert fields["username"] == "route"


def test_the_hash_is_sent_and_never_the_password():
    address = ServerAddress("h", 1, password="foobar")
    line = handshake.hello_line(ServerHello("55104dc76695721d", 1545), address, None)
    assert b"6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30" in line
    assert b"foobar" not in line


def test_a_password_is_not_hashed_for_a_server_that_wants_none():
    assert "pwdhash" not in hello_fields(ServerHello(), ADDRESS, None)


def test_a_missing_password_is_said_and_not_tried_again():
    with pytest.raises(ConnectFailed, match="password") as refused:
        handshake.hello_line(ServerHello(salt="abc"), ServerAddress("h", 7419), None)
    assert not refused.value.is_retryable
    assert "tcp://h:7419" in str(refused.value)


def test_ok_is_the_answer_to_hello():
    handshake.check_hello_answer("OK", ADDRESS)


def test_a_wrong_password_is_said_and_not_tried_again():
    with pytest.raises(ConnectFailed, match="password") as refused:
        handshake.check_hello_answer(ErrorReply("ERR", "Invalid password"), ADDRESS)
    assert not refused.value.is_retryable
    assert str(ADDRESS) in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_another_refusal_of_hello_is_worth_another_try():
    with pytest.raises(ConnectFailed, match="busy") as refused:
        handshake.check_hello_answer(ErrorReply("ERR", "busy"), ADDRESS)
    assert refused.value.is_retryable


@pytest.mark.parametrize("reply", [None, b"OK", "HELLO", 0])
def test_any_other_answer_to_hello_is_a_protocol_error(reply: Reply):
    with pytest.raises(ProtocolError):
        handshake.check_hello_answer(reply, ADDRESS)
