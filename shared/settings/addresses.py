"""Where services listen: `host:port`, and whether that is this machine only. Pure."""

from functools import lru_cache
from ipaddress import ip_address


def host_and_port(text: str) -> tuple[str, int]:
    """Read `host:port` or `[v6]:port`."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
