"""URLs of sinks that are servers: hosts, login, and a name without the password for logs. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from manyhands.shared.errors import ConfigError

LARGEST_PORT = 65535


@dataclass(slots=True, frozen=True)
class ServerUrl:
    """`hosts` are names or addresses with their ports, `places` the same as text; `path` is without
    its slashes. `name` is the URL without user, password and query."""

    name: str
    scheme: str
    places: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    user: str
    password: str = field(repr=False)
    query: str


def server_url(url: str, *, schemes: Collection[str], default_port: int, example: str) -> ServerUrl:
    """Read `scheme://user:password@host:port,host:port/path?query`; user and password are
    URL-unescaped. Raises ConfigError for another scheme, and without a host or a path."""
    # No message quotes what it cannot read: it may be a part of the password.
    scheme = url.partition(":")[0]
    if scheme not in schemes:
        raise ConfigError(f"SINKS: {scheme}: is not one of {', '.join(schemes)}: use {example}")
    try:
        parts = urlsplit(url)
        login, _, places = parts.netloc.rpartition("@")
        hosts = tuple(_host_and_port(place, default_port) for place in places.split(","))
        if "@" in parts.path:
            # An unescaped slash in the password ends the host.
            raise ValueError("a part of the password")
    except ValueError:
        raise ConfigError(
            f"SINKS: a {scheme} URL cannot be read: use {example}, "
            "with special characters of the password URL-escaped"
        ) from None
    path = unquote(parts.path.strip("/"))
    if not path or "/" in path:
        raise ConfigError(f"SINKS: a {scheme} URL needs one name after the host: use {example}")
    user, _, password = login.partition(":")
    with_ports = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts
    )
    return ServerUrl(
        name=f"{scheme}://{with_ports}/{path}",
        scheme=scheme,
        places=with_ports,
        hosts=hosts,
        path=path,
        user=unquote(user),
        password=unquote(password),
        query=parts.query,
    )


def _host_and_port(place: str, default_port: int) -> tuple[str, int]:
    host, port = place, ""
    if not place.endswith("]") and ":" in place:
        host, _, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or (port and not port.isdecimal()):
        raise ValueError("no host, or a port that is no number")
    number = int(port) if port else default_port
    if not 0 < number <= LARGEST_PORT:
        raise ValueError("no such port")
    return host, number
