"""By which names a service is asked, where no password keeps strangers out. Pure.

A page of any site can point its own host name at 127.0.0.1, and a browser then lets it read what
is answered there (DNS rebinding). The browser says that name as the Host: so only names of this
machine are served.
"""

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from manyhands.shared.settings.addresses import is_loopback

# Of a name in the DNS, with a port; longer ones are nobody's.
MAX_HOST = 270


def is_own_host(header: str, bound_to: str, names: Collection[str] = ()) -> bool:
    """Whether a Host header names this machine, for a service that listens on `bound_to`, or is
    one of the `names`, in lower case, that an operator gave it."""
    if len(header) > MAX_HOST:
        return False
    host = _host_of(header)
    return host in names or _is_own(host, bound_to)


@lru_cache(maxsize=1024)
def _host_of(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


@lru_cache(maxsize=1024)
def _is_own(host: str, bound_to: str) -> bool:
    return is_loopback(host) or host == bound_to.lower() or _is_any_address(host, bound_to)


def _is_any_address(host: str, bound_to: str) -> bool:
    """On all addresses it is asked by any of them, which are no names that a page could point
    elsewhere."""
    try:
        ip_address(host)
        return ip_address(bound_to).is_unspecified
    except ValueError:
        return False
