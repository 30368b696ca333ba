"""A PostgreSQL database that keeps state or a part of it: how to connect, what to call it. Pure.

It is given as a URL of libpq's, with one parameter of ours: `schema`, which all tables are in.
"""

import hashlib
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from manyhands.shared.errors import ConfigError
from manyhands.shared.masking import masked_url

DEFAULT_SCHEMA = "manyhands"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")
# Unless the URL says otherwise: an attempt to connect, and data that nobody acknowledges, are given
# up after so many seconds, so that a host that was cut off finds out before its leases end.
_GIVE_UP_S = 5
_DEFAULTS: dict[str, str | int] = {
    "application_name": "manyhands",
    "connect_timeout": _GIVE_UP_S,
    "tcp_user_timeout": _GIVE_UP_S * 1000,
    "keepalives_idle": _GIVE_UP_S,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}


@dataclass(frozen=True, slots=True)
class Place:
    """`shown` is the URL without what opens doors."""

    conninfo: str = field(repr=False)
    schema: str
    shown: str

    def lock_key(self, *names: object) -> int:
        """For advisory locks, whose keys are of the whole database: a number of this schema and
        what is named."""
        named = "/".join(map(str, ("manyhands", self.schema, *names)))
        digest = hashlib.blake2b(named.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def parse_place(url: str) -> Place:
    """Raises ConfigError, which shows nothing of the URL that may be a secret."""
    shown = masked_url(url)
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(query).get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(
            f"CRAWL_STATE: {schema!r} is no name for a schema (small letters, digits and _)"
        )
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    try:
        given = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
        ports = str(given.get("port") or "5432").split(",")
        if not all(port.isdecimal() for port in ports if port):
            raise ProgrammingError
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
        if "," in str(given.get("host") or "") and "target_session_attrs" not in given:
            # Of several, the one that takes writes: a standby may be among them.
            defaults["target_session_attrs"] = "read-write"
        conninfo = make_conninfo("", **given, **defaults)
    except ProgrammingError:
        # What libpq says of it may show a part of the password.
        raise ConfigError(
            f"CRAWL_STATE: {shown} is no URL that libpq understands; characters of the password"
            " that mean something in a URL are written as %40 for @, %2F for / and so on"
        ) from None
    return Place(conninfo, schema, shown)
