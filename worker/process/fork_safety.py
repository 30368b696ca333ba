"""What a new process must not inherit from the supervisor.

With WORKER_START_METHOD=fork it inherits everything: the signal handlers and the socket by which
they wake the parent's loop, the loop itself, the HTTP listener, the connection to the server, and
the parent's ends of the links, through which children notice that the parent is gone. With the
other start methods only the blocked signals need undoing; the same is done for all three.
"""

import asyncio
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

# Those that the supervisor acts upon. A terminal or a service manager sends some of them to all
# processes of a service at once, also to one that has only begun to start.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1)
# From the supervisor to a child: put back at once what still runs. Not a second SIGTERM: one that
# is sent to all processes of a service reaches each child twice, directly and from the supervisor.
AT_ONCE = signal.SIGUSR2
FIRST_OTHER_DESCRIPTOR = 3


@contextmanager
def signals_held_back() -> Iterator[None]:
    """In the parent, around the start of a child, which inherits the mask: before it has its own
    handlers, a signal would reach the parent's loop, or stop a Python that is still starting."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_the_parent(link: Connection) -> None:
    """In the child, before anything else. Until it has its own handlers, SIGTERM ends it (it has
    nothing to put back yet) and no other signal does."""
    signal.set_wakeup_fd(-1)
    for number in (*SIGNALS, AT_ONCE):
        # Ignored for a moment, one that waits behind the mask would be lost.
        action = signal.SIG_DFL if number is signal.SIGTERM else signal.SIG_IGN
        signal.signal(number, action)
    asyncio._set_running_loop(None)
    _let_go_of_sockets(link.fileno())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _let_go_of_sockets(kept: int) -> None:
    """All but `kept` and the standard streams. Each gets /dev/null in its place: a closed number
    would be used again, and closed once more when the parent's object for it is collected."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        if descriptor >= FIRST_OTHER_DESCRIPTOR and descriptor not in (kept, nothing):
            try:
                kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
            except OSError:
                continue  # the directory's own, closed by now
            # Neither file nor pipe nor socket: what the loop waits with (epoll).
            if kind in (stat.S_IFSOCK, 0):
                os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
