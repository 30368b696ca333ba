"""Makes connections to one server for many lanes, and tells of trouble once, not once per lane."""

import ssl
import time
from pathlib import Path

from shared.errors import ConnectFailed
from shared.faktory.connection import Connection, dial, tls_context
from shared.faktory.handshake import ServerAddress
from shared.logs import get_logger

# The same trouble is told again after this long, so that a log that was rotated still shows it.
REPEAT_AFTER_S = 30.0


class Dialer:
    """State: the trouble that was told last, and when."""

    def __init__(self, address: ServerAddress, ca_file: Path | None = None) -> None:
        self.address = address
        self.tls: ssl.SSLContext | None = tls_context(address, ca_file)
        self._trouble: str | None = None
        self._told_at = 0.0
        self._log = get_logger("faktory")

    async def dial(self, wid: str | None = None) -> Connection:
        try:
            connection = await dial(self.address, self.tls, wid)
        except ConnectFailed as error:
            if error.is_retryable:
                self._tell(f"{error}; trying again")
            raise
        if self._trouble is not None:
            self._trouble = None
            self._log.info(f"connected to {self.address}")
        return connection

    def tell_lost(self, reason: Exception) -> None:
        self._tell(f"a connection to {self.address} was lost: {reason}; connecting again")

    def _tell(self, trouble: str) -> None:
        now = time.monotonic()
        if trouble != self._trouble or now - self._told_at > REPEAT_AFTER_S:
            self._trouble = trouble
            self._told_at = now
            self._log.warning(trouble)
