"""API keys: who may do what, and how often. Pure.

A key is 32 random bytes, so a plain SHA-256 of it is as good as a slow hash, and fast enough to
check on every request.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum

from manyhands.shared.errors import ConfigError

KEY_PREFIX = "mh_"
# In place of keys: something else keeps strangers out.
NO_KEYS = "none"


class Scope(StrEnum):
    INGEST = "ingest"
    READ = "read"
    ADMIN = "admin"


@dataclass(slots=True)
class TokenBucket:
    """Jobs per second, with one second's worth at once. State: what is left, and since when."""

    rate: float
    tokens: float
    at: float

    def take(self, count: int, now: float) -> None:
        """Take tokens, on credit if need be: the next caller has to wait."""
        self._fill(now)
        self.tokens -= count

    def wait_s(self, now: float) -> float:
        """Seconds until the last credit is paid off."""
        self._fill(now)
        return max(0.0, -self.tokens / self.rate)

    def _fill(self, now: float) -> None:
        self.tokens = min(self.rate, self.tokens + (now - self.at) * self.rate)
        self.at = now


@dataclass(slots=True, eq=False)
class Key:
    name: str
    scopes: frozenset[Scope]
    digest: bytes
    bucket: TokenBucket | None = None


class Keys:
    """The keys of this service; several at a time, so that one can be replaced without a gap."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, secret: bytes) -> Key | None:
        """Compares all of them, so that the time taken reveals nothing."""
        digest = hashlib.sha256(secret).digest()
        found: Key | None = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def parse_keys(text: str, rate: float, now: float) -> Keys:
    """Read `name:scope+scope:sha256`, comma separated, or `none`. Raises ConfigError."""
    if text in ("", NO_KEYS):
        return Keys([])
    entries = [entry.strip() for entry in text.split(",")]
    keys = [_parse_key(number, entry, rate, now) for number, entry in enumerate(entries, 1)]
    names = [key.name for key in keys]
    if len(set(names)) < len(names):
        raise ConfigError("API_KEYS: two keys have the same name")
    return Keys(keys)


def _parse_key(number: int, entry: str, rate: float, now: float) -> Key:
    name, _, rest = entry.partition(":")
    scopes, _, digest = rest.partition(":")
    try:
        granted = frozenset(Scope(scope) for scope in scopes.split("+"))
        digest_bytes = bytes.fromhex(digest)
        if not name or len(digest_bytes) != hashlib.sha256().digest_size:
            raise ValueError
    except ValueError:
        # Nothing of it is repeated: it may be the key itself, put there by mistake.
        raise ConfigError(
            f"API_KEYS: entry {number} is not name:scopes:sha256, with scopes of ingest, read, "
            "admin joined by +; `manyhands api key` makes one"
        ) from None
    return Key(name, granted, digest_bytes, make_bucket(rate, now))


def make_bucket(rate: float, now: float) -> TokenBucket | None:
    return TokenBucket(rate, rate, now) if rate else None


def new_key(name: str, scopes: str) -> tuple[str, str]:
    """A new secret, and the entry for API_KEYS that lets it in."""
    if not name.isprintable() or not name.strip() or {":", ","} & set(name):
        raise ConfigError("a key's name must be text without a colon or a comma")
    if not set(scopes.split("+")) <= set(Scope):
        raise ConfigError("a key's scopes are ingest, read and admin; several are joined by +")
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    return secret, f"{name.strip()}:{scopes}:{hashlib.sha256(secret.encode()).hexdigest()}"
