"""`python -m tests.containers`: builds the image, and runs the compose files in containers."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from devservers.build import CACHE, BuildError
from tests.containers.images import OURS, build_all
from tests.containers.podman import Podman, missing_programs
from tests.containers.runs import RUNS

STORAGE = CACHE / "containers"
# Set in the process that is in namespaces of its own.
INSIDE = "MANYHANDS_TEST_INSIDE"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.containers", description=__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(RUNS)}; all")
    arguments = parser.parse_args()
    if unknown := set(arguments.runs) - set(RUNS):
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    if missing := missing_programs():
        print(f"tests.containers: {missing}", file=sys.stderr)
        return 1
    podman = Podman(STORAGE)
    if INSIDE in os.environ:
        return _run(podman, arguments.runs or list(RUNS))
    began = time.monotonic()
    build_all(podman, STORAGE)
    print(f"image {OURS}: {podman.megabytes(OURS):.0f} MB, in {time.monotonic() - began:.0f} s")
    # Networks, mounts and processes go with the namespaces, whatever happens.
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    alone += [sys.executable, "-m", "tests.containers"]
    return subprocess.run([*alone, *arguments.runs], env=os.environ | {INSIDE: "1"}).returncode


def _run(podman: Podman, names: list[str]) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    podman.start_afresh()
    all_began = time.monotonic()
    for name in names:
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="manyhands-containers-") as directory:
                RUNS[name](podman, Path(directory))
        except (AssertionError, BuildError) as error:
            print(f"{name}: FAILED: {error}", file=sys.stderr)
            return 1
        print(f"{name}: passed in {time.monotonic() - began:.0f} s", flush=True)
    print(f"all of it in {(time.monotonic() - all_began) / 60:.1f} minutes, without the images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
