"""What handlers keep open while a process lives (sessions, pools), and close when it stops."""

from collections.abc import Awaitable, Callable

from manyhands.shared.logs import get_logger

Close = Callable[[], Awaitable[None]]


class Resources:
    """State: how to close each of them. One for all handlers of a process."""

    def __init__(self) -> None:
        self._closes: list[Close] = []
        self._log = get_logger("resources")

    def close_at_stop(self, close: Close) -> None:
        """Call and await this when the process stops and no handler runs any more."""
        self._closes.append(close)

    async def close(self) -> None:
        """In reverse order; an error in closing one does not keep the others open."""
        while self._closes:
            close = self._closes.pop()
            try:
                await close()
            except Exception as error:
                self._log.warning("a resource was not closed", reason=repr(error))
