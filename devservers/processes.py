"""Start a server as a child process that ends with us, on ports that are ours, and wait for it.

Owns what is the same for every server: the process group, the log file, free ports and deadlines.
Called by the other modules here; the directories also by benchmarks, which may be killed too.
"""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from devservers.unprivileged import run_as

# All times in seconds.
START_DEADLINE = 40.0
# The API drains for up to 20 s.
STOP_DEADLINE = 25.0
POLL = 0.01
# How much of a log an error shows, in bytes.
LOG_TAIL = 4096
# Ports are taken from here up to where the kernel's own choice for clients begins.
FIRST_PORT = 15_000


class StartError(RuntimeError):
    """A server did not come up; the message has the end of its log."""


class PortTakenError(StartError):
    """A server did not come up because another process has its port; other ports may be tried."""


class Port:
    """A free port of 127.0.0.1 that stays ours, also while the server on it is down.

    It lies below the kernel's range for clients: a client that tries to reconnect to a port of that
    range while nobody listens can be given the same port, and is then connected to itself.
    """

    def __init__(self) -> None:
        self._holder = socket.socket()
        first_client_port = _first_client_port()
        for _ in range(200):
            wanted = 0
            if first_client_port - FIRST_PORT > 1000:
                wanted = random.randrange(FIRST_PORT, first_client_port)
            try:
                self._holder.bind(("127.0.0.1", wanted))
                break
            except OSError:
                continue
        else:
            self._holder.close()
            raise StartError("no free port on 127.0.0.1")
        self.number: int = self._holder.getsockname()[1]
        if sys.platform == "linux":
            # Bound without SO_REUSEADDR, so that no other holder has the port; set afterwards, so
            # that a server (Go's listeners all set it) may listen beside this silent socket.
            self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            self._holder.close()

    def release(self) -> None:
        self._holder.close()


def _first_client_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 49_152  # IANA's, which the BSDs and macOS use


class Child:
    """A running server with its own process group, which includes the processes it starts."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str],
        directory: Path | None = None,
        user: str | None = None,
        end_signal: int = signal.SIGTERM,
    ) -> None:
        self.log = log
        self._end_signal = end_signal
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                # Our services read settings from files of the directory in which they start.
                cwd=directory or log.parent,
                start_new_session=True,
                **run_as(user),
            )
        self.pid = self._process.pid
        _reaper.tell(f"group {self.pid}")

    def running(self) -> bool:
        return self._process.poll() is None

    def log_text(self) -> str:
        """Return what this process has logged, without what an earlier one wrote to the file."""
        with self.log.open("rb") as text:
            text.seek(self._log_start)
            return text.read().decode(errors="replace")

    def wait_ready(
        self, what: str, ready: Callable[[], bool], seconds: float = START_DEADLINE
    ) -> None:
        """Wait until ready() is true; end the process and raise StartError if it never is."""
        deadline = time.monotonic() + seconds
        while True:
            ended = not self.running()
            log = self.log_text()
            if "address already in use" in log.lower():
                reason = "has no port"
            elif ended:
                reason = f"ended with exit code {self._process.returncode}"
            elif ready():
                return
            elif time.monotonic() > deadline:
                reason = f"was not ready after {seconds:g} s"
            else:
                time.sleep(POLL)
                continue
            self.end()
            kind = PortTakenError if reason == "has no port" else StartError
            raise kind(f"{what} {reason}; the end of its log:\n{log[-LOG_TAIL:].strip()}")

    def wait_ended(self) -> int:
        """Wait for it to end by itself; its exit code."""
        return self._process.wait(STOP_DEADLINE)

    def kill(self) -> None:
        """SIGKILL the server itself, as a crash would; its children are left to their fate."""
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """SIGKILL it and all that it has started, where nothing is gained by an orderly end."""
        _signal_group(self.pid, signal.SIGKILL)
        self._process.wait()
        _reaper.tell(f"group-gone {self.pid}")

    def end(self) -> None:
        """Ask the server to end, wait, and leave no process of its group behind."""
        self._process.send_signal(self._end_signal)
        try:
            self._process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
        # Children that outlived it, e.g. after kill(): a Redis saves its data on SIGTERM.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not group_alive(self.pid):
                break
            _signal_group(self.pid, number)
            wait_until(lambda: not group_alive(self.pid), STOP_DEADLINE)
        _reaper.tell(f"group-gone {self.pid}")


class Started:
    """A server as a context manager: start() on the way in, stop() on the way out."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll a condition; return whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def group_alive(group: int) -> bool:
    """Return whether a process group has a living member.

    A zombie is not alive: an orphan's stays for as long as process 1 does not care to collect it,
    which in a container may be forever.
    """
    if not _signal_group(group, 0):
        return False
    if sys.platform != "linux":
        return True
    return any(_living_member(process, group) for process in Path("/proc").glob("[0-9]*"))


def _living_member(process: Path, group: int) -> bool:
    try:
        # pid (name, which may contain anything) state parent group ...
        state, _, member_of = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return False  # it ended while we looked
    return int(member_of) == group and state not in "ZX"


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def make_directory() -> Path:
    """Make a directory that is removed with us. Its name is short: it will hold Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="mh-"))
    _reaper.tell(f"directory {directory}")
    return directory


def remove_directory(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    _reaper.tell(f"directory-gone {directory}")


class _Reaper:
    """Our end of reaper.py, which is started at the first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def tell(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._start()
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")

    def _start(self) -> None:
        self._owner = os.getpid()  # a fork must not write into its parent's pipe
        self._process = subprocess.Popen(
            # -I -S: it needs nothing but the standard library, and starts in half the time.
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py"))],
            stdin=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for us; it must live longer
        )
        atexit.register(self._finish)

    def _finish(self) -> None:
        if self._process is None or self._owner != os.getpid():
            return
        self._process.communicate()
        self._process = None


_reaper = _Reaper()
