"""Who is let in: the password check of Faktory's handshake."""

import hmac
import secrets
from math import inf

from manyhands.broker.clients import Hello
from manyhands.shared.faktory.handshake import password_hash

# Hashing a password is slow on purpose; a salt serves all who connect within a second.
SALT_FOR_S = 1.0
HASH_ITERATIONS = 4000


class Gate:
    """The password check. State: the present salt with the hash that it asks for."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._salt = ""
        self._expected = ""
        self._made_at = -inf

    def greeting(self, now: float) -> tuple[bytes, str, str]:
        """The HI line, and what must be answered to it by its salt."""
        if not self._password:
            return b'+HI {"v":2,"mh":1}\r\n', "", ""
        if now - self._made_at >= SALT_FOR_S:
            self._made_at = now
            self._salt = secrets.token_hex(8)
            self._expected = password_hash(self._password, self._salt, HASH_ITERATIONS)
        line = f'+HI {{"v":2,"i":{HASH_ITERATIONS},"s":"{self._salt}","mh":1}}\r\n'
        return line.encode(), self._salt, self._expected

    def lets_in(self, hello: Hello, salt: str, expected: str) -> bool:
        if not self._password:
            return True
        if (hello.v or 1) < 2:
            expected = password_hash(self._password, salt, 1)
        return hmac.compare_digest((hello.pwdhash or "").encode(), expected.encode())
