"""Run as a script: becomes the program that its arguments name, and ends when its parent does.

A command that is killed outright must not leave services behind that go on crawling. Linux only;
elsewhere they are left."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit("its parent is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
