"""Servers that refuse to run as root: root starts them as nobody, everybody else as themselves.

What such a server reads and writes must then be within the reach of nobody.
"""

import hashlib
import os
import pwd
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# The mode bit that lets everybody enter a directory.
ENTER = 0o001
EVERYBODY_READS = 0o755


def unprivileged_user() -> str | None:
    """Name whom to start such a server as; None is whom we are."""
    return "nobody" if os.geteuid() == 0 else None


def run_as(user: str | None) -> dict[str, Any]:
    """Return what subprocess has to be told to run a command as that user, with no other group."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def give(path: Path, user: str | None) -> None:
    """Make a server's user the owner of a file or directory of its own."""
    if user is not None:
        shutil.chown(path, user)
        check_reach(path, user)


def check_reach(path: Path, user: str | None) -> None:
    """Raise PermissionError if that user cannot get to a path; servers say it less clearly."""
    closed = _closed_directory(path, user)
    if closed is not None:
        raise PermissionError(
            f"root starts this server as {user}, who may not enter {closed} and so cannot get to "
            f"{path}: start it as another user than root, or from another directory"
        )


def within_reach(directory: Path, names: Sequence[str], user: str | None) -> Path:
    """Return the directory of a server's programs; where that user cannot get there, one with
    copies of these names in it. A checkout may lie below a directory that is root's alone. Copies
    stay for the next who needs them."""
    trees = [directory / name for name in names]
    if _closed_directory(trees[0], user) is None:
        return directory
    version = str([(tree.resolve(), tree.stat().st_mtime_ns) for tree in trees])
    temporary = Path(tempfile.gettempdir())
    copy = temporary / f"manyhands-server-{hashlib.sha256(version.encode()).hexdigest()[:16]}"
    if not copy.is_dir():
        scratch = Path(tempfile.mkdtemp(prefix="manyhands-copy-", dir=temporary))
        scratch.chmod(EVERYBODY_READS)
        made = scratch / "made"
        for tree in trees:
            shutil.copytree(tree, made / tree.name, symlinks=True)
        # Another process may have been quicker.
        with suppress(OSError):
            made.rename(copy)
        shutil.rmtree(scratch)
    check_reach(copy / names[0], user)
    return copy


def _closed_directory(path: Path, user: str | None) -> Path | None:
    """The first on the way to a path that this user may not enter."""
    if user is None:
        return None
    owner = pwd.getpwnam(user).pw_uid
    for directory in reversed(path.resolve().parents):
        status = directory.stat()
        if status.st_uid != owner and not status.st_mode & ENTER:
            return directory
    return None
