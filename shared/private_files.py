"""Files and directories that a service makes are for its own user alone."""

import os

OTHERS = 0o077


def keep_files_private() -> None:
    """First of all in every process: payloads, pages and state hold what others must not read. What
    is there already keeps the rights that it has."""
    os.umask(OTHERS)
