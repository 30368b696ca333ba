"""The exception tree: one class for each thing that a caller can do about it.

Foreign errors are translated where they enter (sockets in shared/faktory), so that the rest
of the code catches only these.
"""


class ManyhandsError(Exception):
    """Base of everything that this project raises on purpose."""


class ConfigError(ManyhandsError):
    """A setting is wrong: say so in one line and exit, trying again cannot help."""


class InvalidJob(ManyhandsError, ValueError):
    """A job that must not be sent: the server would corrupt, lose or refuse it."""


class InvalidUrl(ManyhandsError, ValueError):
    """A URL that cannot be fetched, and why. The text never repeats the whole URL: it may hold a
    password."""


class OverBudget(ManyhandsError):
    """There is no room for these bytes now: refuse them; the client may try again."""

    def __init__(self, size: int, held: int, limit: int) -> None:
        super().__init__(f"{size} bytes more are too many: {held} of {limit} are held already")


class FaktoryError(ManyhandsError):
    """Anything that went wrong between us and a Faktory server."""


class ConnectFailed(FaktoryError):
    """No usable connection could be made."""

    def __init__(self, message: str, *, is_retryable: bool) -> None:
        super().__init__(message)
        self.is_retryable = is_retryable


class ConnectionLost(FaktoryError):
    """The connection went away before the answer came: the command may or may not have run."""


class NotSent(ConnectionLost):
    """The command never left: it has certainly not run."""


class ProtocolError(FaktoryError):
    """The peer sent bytes that are not Faktory's protocol."""


class ServerError(FaktoryError):
    """The server understood the command and refused it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text
