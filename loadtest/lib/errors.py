"""What may go wrong with a benchmark. Pure."""


class PeerError(Exception):
    """A program of others cannot be built here; the message says why in one line."""


class RunError(Exception):
    """A run that must not be used; the message says what was wrong with it."""


class WireError(Exception):
    """A server said no, or something that is not its protocol."""
