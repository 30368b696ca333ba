"""Where a Kafka is, and how to log in: a URL to librdkafka's settings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from manyhands.shared.errors import ConfigError

EXAMPLE = "kafka://host:9092,host:9092?group=NAME"
DEFAULT_PORT = 9092
_SCHEMES = {"kafka": False, "kafka+ssl": True}
SECURITY = {
    (False, False): "PLAINTEXT",
    (False, True): "SASL_PLAINTEXT",
    (True, False): "SSL",
    (True, True): "SASL_SSL",
}
CONNECT_MS = 10_000
LONGEST_RECONNECT_MS = 2000


@dataclass(slots=True, frozen=True)
class KafkaPlace:
    """The brokers that are asked first, a group of consumers, and a login. `str()` has neither user
    nor password."""

    brokers: str
    group: str
    is_encrypted: bool
    user: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        return f"kafka://{self.brokers}"


def is_kafka(url: str) -> bool:
    return url.partition("://")[0] in _SCHEMES


def kafka_place(url: str, where: str) -> KafkaPlace:
    """Read `kafka+ssl://user:password@host:port,host:port?group=name`; `where` names the setting in
    errors, which never quote what cannot be read: it may be a part of the password."""
    try:
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        brokers = ",".join(_with_port(host) for host in hosts.split(","))
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        if parts.scheme not in _SCHEMES or parts.path.strip("/") or parts.fragment:
            raise ValueError("another kind of URL")
    except ValueError:
        raise ConfigError(
            f"{where}: not a Kafka URL: use {EXAMPLE}, with special characters of the password "
            "URL-escaped"
        ) from None
    options = dict(query)
    group = options.pop("group", "")
    if options:
        raise ConfigError(f"{where}: {', '.join(options)} in a Kafka URL: only `group` is known")
    user, _, password = login.partition(":")
    return KafkaPlace(
        brokers=brokers,
        group=group,
        is_encrypted=_SCHEMES[parts.scheme],
        user=unquote(user),
        password=unquote(password),
    )


def _with_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(DEFAULT_PORT)
    if not name.strip("[]") or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError("no host, or no port")
    return f"{name}:{port}"


def client_settings(place: KafkaPlace, mechanism: str, ca_file: object) -> Mapping[str, Any]:
    """What every client of librdkafka needs. Errors come as exceptions, not on stderr."""
    settings: dict[str, Any] = {
        "bootstrap.servers": place.brokers,
        "security.protocol": SECURITY[place.is_encrypted, bool(place.user)],
        "socket.connection.setup.timeout.ms": CONNECT_MS,
        "reconnect.backoff.max.ms": LONGEST_RECONNECT_MS,
        "log_level": 0,
    }
    if ca_file is not None:
        settings["ssl.ca.location"] = str(ca_file)
    if place.user:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": place.user,
            "sasl.password": place.password,
        }
    return settings
