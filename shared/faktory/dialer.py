"""Makes connections to one server for many lanes, and logs trouble once, not once per lane."""

import ssl
from pathlib import Path

from manyhands.shared.errors import ConnectFailed, ProtocolError
from manyhands.shared.faktory.connection import (
    Connection,
    dial,
    explain_failure,
    is_at_limit,
    tls_context,
)
from manyhands.shared.faktory.handshake import ServerAddress
from manyhands.shared.logs import get_logger
from manyhands.shared.trouble import Trouble

REPEAT_AFTER_S = 30.0


class Dialer:
    """State: how many connections were `lost` and how many attempts `failed`; whether one ever
    worked and works now; the present trouble."""

    def __init__(self, address: ServerAddress, ca_file: Path | None = None) -> None:
        self.address = address
        self.tls: ssl.SSLContext | None = tls_context(address, ca_file)
        self.lost = 0
        self.failed = 0
        self._has_connected = False
        self._is_away = False
        self._trouble = Trouble(REPEAT_AFTER_S)
        self._log = get_logger("faktory")

    async def dial(self, wid: str | None = None) -> Connection:
        """Connect and log in. What looks like a mistake in the settings at first is trouble on
        the way once it has worked, except for the password."""
        try:
            connection = await dial(self.address, self.tls, wid)
        except ConnectFailed as error:
            self.failed += 1
            if self._has_connected and isinstance(error.__cause__, ProtocolError | ssl.SSLError):
                error.is_retryable = True
            if error.is_retryable:
                self._is_away = True
                self._tell(f"{error}; trying again")
            raise
        self._has_connected = True
        if self._is_away:
            self._is_away = False
            self._trouble.end()
            self._log.info(f"connected to {self.address}")
        return connection

    def tell_lost(self, reason: Exception) -> None:
        self.lost += 1
        if is_at_limit(reason):
            self._tell(f"{explain_failure(self.address, reason)}; trying again")
        else:
            self._tell(f"a connection to {self.address} was lost: {reason}; connecting again")

    def _tell(self, trouble: str) -> None:
        if self._trouble.is_news(trouble):
            self._log.warning(trouble)
