"""Children of a supervisor that do nothing but one odd thing: run in place of `run_child`."""

import os
import signal
import stat
import time
from multiprocessing.connection import Connection
from pathlib import Path

from manyhands.worker.process.child import ChildSpec
from manyhands.worker.process.fork_safety import SIGNALS, leave_the_parent
from manyhands.worker.service.link import Family, Figures, Pulse, Ready, Sample, StageReport, encode

MANY_SAMPLES = 100_000


def says_little(_spec: ChildSpec, parent: Connection) -> None:
    leave_the_parent(parent)
    parent.send_bytes(encode(turn("a", "b")))
    parent.send_bytes(encode(Ready([StageReport("s", ["q"], 1, 5, "")])))
    parent.recv_bytes()


def says_much(_spec: ChildSpec, parent: Connection) -> None:
    """Some megabytes in one message, and a small one behind it."""
    leave_the_parent(parent)
    samples = [Sample([f"label of {n}"], n) for n in range(MANY_SAMPLES)]
    parent.send_bytes(encode(Figures([Family("f", "counter", "", ["label"], samples)])))
    parent.send_bytes(encode(turn("last")))


def says_nonsense(_spec: ChildSpec, parent: Connection) -> None:
    leave_the_parent(parent)
    parent.send_bytes(b'{"type": "FromTheFuture"}')
    parent.send_bytes(b'{"type": "FromTheFuture"}')
    parent.send_bytes(encode(turn("after")))
    parent.recv_bytes()


def is_deaf(_spec: ChildSpec, parent: Connection) -> None:
    """Never takes a message; stays until it is killed."""
    leave_the_parent(parent)
    parent.send_bytes(encode(turn()))
    while True:
        time.sleep(60)


def ends(_spec: ChildSpec, _parent: Connection) -> None:
    os._exit(3)


def leaves_a_process(_spec: ChildSpec, parent: Connection) -> None:
    """Its own child holds everything open that it had, until it is killed."""
    leave_the_parent(parent)
    left = os.fork()
    if not left:
        time.sleep(60)
        os._exit(0)
    parent.send_bytes(encode(turn(str(left))))
    os._exit(0)


def lists_what_it_has(_spec: ChildSpec, parent: Connection) -> None:
    """Its sockets other than the standard streams, and the signals it would act upon."""
    leave_the_parent(parent)
    sockets = []
    for entry in Path("/dev/fd").iterdir():
        try:
            is_socket = stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode)
        except OSError:
            continue
        if is_socket and int(entry.name) > 2:
            sockets.append(f"socket {int(entry.name) - parent.fileno()}")
    waking = [f"wakes {signal.set_wakeup_fd(-1)}"]
    handled = [number.name for number in SIGNALS if callable(signal.getsignal(number))]
    blocked = [signal.Signals(number).name for number in signal.pthread_sigmask(0, ())]
    parent.send_bytes(encode(turn(*sockets, *waking, *handled, *blocked)))
    parent.recv_bytes()


def turn(*said: str) -> Pulse:
    """What it has to say is in place of its worker ids."""
    return Pulse(list(said), True, False, 0, 0, 0.0, 0.0, [])
