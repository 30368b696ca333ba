"""From a URL to a HELLO: addresses, password hashes, and what the server announces. No I/O."""

import hashlib
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from manyhands.shared.errors import ConfigError, ConnectFailed, ProtocolError
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.codec import ErrorReply, Reply

DEFAULT_PORT = 7419
PROTOCOL_VERSION = 2
# A real server asks for 4,000 to 8,095; a hostile one could otherwise keep us hashing for hours.
MAX_HASH_ITERATIONS = 100_000
# Our broker gives the jobs of a process back when its last connection is gone. A name and a process
# id may come again, on another machine or after a reboot; this does not.
INSTANCE = secrets.token_hex(8)


@dataclass(slots=True, frozen=True)
class ServerAddress:
    """Where a server is and how to log in; prints itself without the password."""

    host: str
    port: int
    is_tls: bool = False
    password: str = ""
    username: str = ""

    def __str__(self) -> str:
        scheme = "tcp+tls" if self.is_tls else "tcp"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"ServerAddress({self})"


def parse_url(url: str) -> ServerAddress:
    """Read `tcp://[user]:password@host:port` or `tcp+tls://…`; the password is URL-unescaped."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError:
        # Python's own message would quote a part of it, maybe of the password.
        raise ConfigError(
            "FAKTORY_URL is not a URL: use tcp://:password@host:port, "
            "with special characters of the password URL-escaped"
        ) from None
    if parts.scheme not in ("tcp", "tcp+tls"):
        raise ConfigError(
            f"FAKTORY_URL must start with tcp:// or tcp+tls://, not {parts.scheme or 'nothing'}://"
        )
    if not parts.hostname:
        raise ConfigError("FAKTORY_URL names no host: use e.g. tcp://:password@localhost:7419")
    return ServerAddress(
        host=parts.hostname,
        port=port,
        is_tls=parts.scheme == "tcp+tls",
        password=unquote(parts.password or ""),
        username=unquote(parts.username or ""),
    )


@dataclass(slots=True, frozen=True)
class ServerHello:
    """What the server's HI says. `extensions` is 0 for a real Faktory."""

    salt: str = ""
    iterations: int = 1
    extensions: int = 0

    @property
    def is_our_broker(self) -> bool:
        return self.extensions >= 1


def parse_hi(reply: Reply, address: ServerAddress) -> ServerHello:
    """Read the server's first line. Raises ProtocolError when this is no Faktory server."""
    if isinstance(reply, ErrorReply):
        raise ConnectFailed(f"{address} refused the connection: {reply.text}", is_retryable=True)
    if not isinstance(reply, str) or not reply.startswith("HI "):
        raise ProtocolError("no HI")
    try:
        fields = orjson.loads(reply[3:])
        iterations = int(fields.get("i", 1))
        salt = str(fields.get("s", ""))
        extensions = int(fields.get("mh", 0))
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        raise ProtocolError("an unreadable HI") from None
    if not 1 <= iterations <= MAX_HASH_ITERATIONS:
        raise ConnectFailed(
            f"{address} asks for {iterations} rounds of password hashing "
            f"(at most {MAX_HASH_ITERATIONS} are done): this is no honest Faktory server",
            is_retryable=False,
        )
    return ServerHello(salt=salt, iterations=iterations, extensions=extensions)


def password_hash(password: str, salt: str, iterations: int) -> str:
    digest = hashlib.sha256((password + salt).encode()).digest()
    for _ in range(iterations - 1):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def hello_line(server: ServerHello, address: ServerAddress, wid: str | None) -> bytes:
    """Our HELLO. Without a worker id the connection is a producer's and needs no BEAT."""
    fields: dict[str, Any] = {
        "v": PROTOCOL_VERSION,
        "hostname": socket.gethostname(),
        "pid": os.getpid(),
        "labels": ["python", "manyhands"],
    }
    if server.is_our_broker:
        fields["instance"] = INSTANCE
    if wid is not None:
        fields["wid"] = wid
    if address.username:
        fields["username"] = address.username
    if server.salt:
        if not address.password:
            raise ConnectFailed(
                f"{address} needs a password: put it into FAKTORY_URL as tcp://:password@host:port",
                is_retryable=False,
            )
        fields["pwdhash"] = password_hash(address.password, server.salt, server.iterations)
    return codec.hello(fields)


def check_hello_answer(reply: Reply, address: ServerAddress) -> None:
    if reply == codec.OK:
        return
    if isinstance(reply, ErrorReply):
        if "invalid password" in reply.text.lower():
            raise ConnectFailed(
                f"{address} refused the password: check the one in FAKTORY_URL "
                "(special characters must be URL-escaped)",
                is_retryable=False,
            )
        raise ConnectFailed(f"{address} refused us: {reply.text}", is_retryable=True)
    raise ProtocolError("no answer to HELLO")
