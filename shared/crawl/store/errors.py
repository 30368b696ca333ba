"""What can be wrong with the place where a state is kept. What a store says about crawls and leases
is in `model`."""

from manyhands.shared.errors import ConfigError, ManyhandsError


class StateError(ManyhandsError):
    """The crawls' state, or a part of it, cannot be used; the text says which and why."""


class StateDamaged(StateError):
    """A file is not what was written to it."""


class StateBusy(StateError):
    """Somebody else is at it, for too long: try again."""


class StateAway(StateError):
    """What keeps it cannot be reached for the time being: nothing is wrong with the state."""


class Undone(StateAway):
    """The store was lost in the middle of a transaction, and nothing of that has happened: it may
    be repeated."""


class StateClosed(StateError, ConfigError):
    """A copy that is not complete, or what was copied elsewhere: no service may use it."""
