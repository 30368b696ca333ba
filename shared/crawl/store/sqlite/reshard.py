"""A new count of shards: the files of one generation become those of the next.

The next generation is built beside the present one and takes over in one transaction of the control
file; the next attempt discards whatever an earlier one left unfinished. Only a part of a file is in
memory at a time.
"""

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.errors import StateBusy, StateError
from manyhands.shared.crawl.store.protocol import ControlStore, Progress
from manyhands.shared.crawl.store.sqlite.directory import (
    generation_directory,
    generations,
    made_shards,
    open_shard,
    opened_tables,
)
from manyhands.shared.crawl.store.sqlite.new_generation import new_generation
from manyhands.shared.crawl.store.whole.old_shard import OldShard, copy_all

OWNER = "reshard"
# Renewed after every part copied, so that no owner starts in vain. What decides in the end is
# whether one did.
LEASE_S = 10.0
LOCK = "reshard.lock"


def reshard(directory: Path, control: ControlStore, shards: int, on_progress: Progress) -> None:
    """See `protocol.Store`."""
    with _lock(directory), _leaving(control):
        layout = control.layout(shards)
        clear(directory, layout.generation)
        if layout.shards == shards:
            return
        epochs = _claim_all(control, layout.shards)
        _build(directory, control, layout.generation, epochs, shards, on_progress)
        control.finish_reshard(layout.generation + 1, shards, epochs)
        clear(directory, layout.generation + 1)


def _build(
    directory: Path,
    control: ControlStore,
    generation: int,
    epochs: dict[int, int],
    shards: int,
    on_progress: Progress,
) -> None:
    old = _take_over(directory, generation, epochs)

    def on_part(done: int, in_all: int) -> None:
        control.renew_leases(OWNER, epochs, LEASE_S)
        on_progress(done, in_all)

    with new_generation(directory, generation + 1, shards) as new:
        in_all = copy_all(old, new, on_part)
    on_progress(in_all, in_all)


def _claim_all(control: ControlStore, shards: int) -> dict[int, int]:
    epochs = {}
    for shard in range(shards):
        epoch = control.claim_lease(shard, OWNER, LEASE_S)
        if epoch is None:
            raise StateBusy(f"shard {shard} has an owner: the shards cannot be laid out anew yet")
        epochs[shard] = epoch
    return epochs


def _take_over(directory: Path, generation: int, epochs: dict[int, int]) -> list[OldShard]:
    """From here on no earlier owner can change anything, and nothing is claimed."""
    found = made_shards(directory, generation)
    for shard in found:
        open_shard(directory, generation, shard, epochs[shard], clock.now()).close()
    return [
        OldShard(shard, found, partial(opened_tables, directory, generation)) for shard in found
    ]


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Released by the system when the process dies."""
    try:
        file = (directory / LOCK).open("a")
    except OSError as error:
        raise StateError(f"{directory / LOCK} cannot be used: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateBusy("another process lays the shards out anew") from None
        yield


@contextlib.contextmanager
def _leaving(control: ControlStore) -> Iterator[None]:
    """Leases by our name that are there before are those of an attempt that was killed."""
    control.leave(OWNER)
    try:
        yield
    finally:
        control.leave(OWNER)


def clear(directory: Path, kept: int) -> None:
    """Remove all generations but one, and what was left of those that were not completed."""
    for part in directory.glob("gen-*.part"):
        shutil.rmtree(part)
    for generation in generations(directory):
        if generation != kept:
            # Under another name first: a generation is there as a whole or not at all.
            part = directory / f"gen-{generation}.part"
            generation_directory(directory, generation).rename(part)
            shutil.rmtree(part)
