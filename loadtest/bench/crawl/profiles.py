"""Where the processor time of a crawl goes, in every process of it: by Python function (cProfile,
of the first thread) and by library (perf, of all threads)."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from devservers.checkout import PRODUCT_PATH
from devservers.processes import wait_until
from loadtest.lib.errors import RunError
from loadtest.lib.profiling import FILE_VARIABLE, PID_MARK, SIGNAL

WRITE_TIMEOUT_S = 30.0
# Of the processes that a page goes through; the supervisor sees none.
LOOKED_AT = ("broker", "crawl", "parse")
PERF = "perf"
# Odd, so that it does not keep step with anything that happens a hundred times a second.
SAMPLES_PER_S = 499
ATTACH_S = 1.0
# pid/tid, address, symbol with its offset cut off, and the file that it is in.
_SAMPLE = re.compile(r"\s*(\d+)/(\d+)\s+[0-9a-f]+\s+(.*) \((.*)\)\s*$")
_ENDING = re.compile(r"(\.cpython-[^/]*|\.abi3|\.so[.0-9]*|-[0-9a-f]{8})+$")
KERNEL = "the kernel"
# Between a library and its function.
OF_LIBRARY = " :: "

Shares = dict[str, float]


def key_of(process: str, label: str) -> str:
    """The name of a share among the values of a run."""
    return f"{process}: {label}"


def by_process(shares: Mapping[str, float]) -> dict[str, Shares]:
    """The opposite: shares by process and label."""
    found: dict[str, Shares] = {}
    for key, share in shares.items():
        process, _, label = key.partition(": ")
        found.setdefault(process, {})[label] = share
    return found


def python_settings(directory: Path) -> dict[str, str]:
    """For all processes: each can be told by a signal to look at itself. Python imports a module
    of this name by itself, so that it works for the broker, too, which has no handlers."""
    (directory / "sitecustomize.py").write_text("import loadtest.lib.profiling\n")
    return {
        "PYTHONPATH": f"{PRODUCT_PATH}{os.pathsep}{directory}",
        FILE_VARIABLE: str(directory / f"profile-{PID_MARK}.json"),
    }


@contextmanager
def python_profile(roles: Mapping[int, str], directory: Path, found: Shares) -> Iterator[None]:
    """Fills `found` with the share of each function in the time of its process's first thread."""
    files = {
        pid: directory / f"profile-{pid}.json" for pid, role in roles.items() if role in LOOKED_AT
    }
    for pid in files:
        os.kill(pid, SIGNAL)
    yield
    for pid in files:
        os.kill(pid, SIGNAL)
    if not wait_until(lambda: all(file.exists() for file in files.values()), WRITE_TIMEOUT_S):
        raise RunError("a process wrote no profile")
    for pid, file in files.items():
        seconds: dict[str, float] = json.loads(file.read_text())
        total_s = sum(seconds.values())
        for label, own_s in seconds.items():
            found[key_of(roles[pid], label)] = own_s / total_s


def has_perf() -> bool:
    return shutil.which(PERF) is not None


@contextmanager
def native_profile(roles: Mapping[int, str], directory: Path, found: Shares) -> Iterator[None]:
    """Fills `found` with the share of each library, and of each native function, in the time of
    its process; the threads beside the first one apart."""
    file = directory / "perf.data"
    pids = [pid for pid, role in roles.items() if role in LOOKED_AT]
    recorder = subprocess.Popen(
        [
            *(PERF, "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES_PER_S)),
            *("-o", str(file), "-p", ",".join(map(str, pids))),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(ATTACH_S)
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(WRITE_TIMEOUT_S)
    script = subprocess.run(
        [PERF, "script", "-i", str(file), "-F", "pid,tid,ip,sym,dso"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=10 * WRITE_TIMEOUT_S,
    )
    if script.returncode:
        raise RunError(f"perf: {script.stderr.strip()[-300:]}")
    found |= native_shares(script.stdout, roles)
    if not found:
        raise RunError("perf saw none of the processes")


def native_shares(script: str, roles: Mapping[int, str]) -> Shares:
    """Of what `perf script` prints; libraries are without, functions with a library in front."""
    samples: Counter[str] = Counter()
    libraries: Counter[tuple[str, str]] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    for line in script.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        pid, tid, symbol, file = match.groups()
        role = roles.get(int(pid), "")
        process = role if pid == tid else f"{role}, other threads"
        library = library_of(file)
        samples[process] += 1
        libraries[process, library] += 1
        functions[process, f"{library}{OF_LIBRARY}{symbol.partition('+0x')[0]}"] += 1
    return {
        key_of(process, label): count / samples[process]
        for counted in (libraries, functions)
        for (process, label), count in counted.items()
    }


def library_of(file: str) -> str:
    """Name a file without naming this machine's directories."""
    if file.startswith("["):
        return KERNEL if "kernel" in file or "guest" in file else file.strip("[]")
    path = Path(file)
    name = _ENDING.sub("", path.name)
    return f"{path.parent.name}/{name}" if "site-packages" in path.parts else name
