"""Files and directories that a service makes are for its own user alone."""

import os

OTHERS = 0o077


def keep_files_private() -> None:
    """Called first in every process: payloads, pages and state hold what others must not read.
    Existing files keep their permissions."""
    os.umask(OTHERS)
