"""Which crawl `manyhands crawl` is about: a new one, or the unfinished one of its state."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands.cli.api_client import Api
from manyhands.cli.output import FOLDER, check_format
from manyhands.cli.saved import SavedCrawl, keep, read_kept
from manyhands.cli.seeds import UsageError
from manyhands.shared.crawl.states import CrawlState

SHOWN_SEEDS = 3


@dataclass(slots=True, frozen=True)
class CrawlRun:
    kept: SavedCrawl
    id: int
    is_resumed: bool

    def __str__(self) -> str:
        what = "resuming" if self.is_resumed else "starting"
        return f"{what} crawl {self.id} of {some_seeds(self.kept.request)}"


def some_seeds(request: Mapping[str, Any]) -> str:
    seeds = [*request["seeds"], *([request["seed_file"]] if "seed_file" in request else ())]
    more = len(seeds) - SHOWN_SEEDS
    return ", ".join(seeds[:SHOWN_SEEDS]) + (f" and {more} more" if more > 0 else "")


async def find_order(
    client: Api,
    state: Path,
    request: Mapping[str, Any] | None,
    output: str | None,
    sinks: Sequence[str] = (),
) -> CrawlRun:
    """Without a request, the unfinished crawl is meant. Raises UsageError."""
    kept = await asyncio.to_thread(read_kept, state)
    if kept is not None:
        number = await _start(client, kept)
        found = CrawlState((await client.get(f"/crawls/{number}"))["state"])
        if not found.is_final:
            if request is not None and not kept.is_for(request):
                raise UsageError(
                    f"{state} has another crawl that is not finished (of "
                    f"{some_seeds(kept.request)}): resume it with --state {state} alone, or "
                    "give another --state"
                )
            return CrawlRun(kept, number, is_resumed=True)
    if request is None:
        raise UsageError(f"the crawl in {state} has ended; give URLs for another")
    await asyncio.to_thread(check_output, output)
    kept = SavedCrawl.new(request, output, sinks)
    # Before the crawl starts, so that a command killed in between finds it again.
    await asyncio.to_thread(keep, state, kept)
    return CrawlRun(kept, await _start(client, kept), is_resumed=False)


def check_output(name: str | None) -> None:
    """Records of two crawls in one file could not be told apart. Raises UsageError, ConfigError."""
    if name is None:
        return
    output = Path(name)
    is_folder = name.endswith(FOLDER)
    if not is_folder and output.is_dir():
        raise UsageError(f"{name} is a directory: name a file, or {name}/ for a folder of .md")
    check_format(name)
    if is_folder and output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file: name a folder, or leave out the slash")
    is_empty = not output.exists() or not (
        any(output.iterdir()) if is_folder else output.stat().st_size
    )
    if not is_empty:
        what = "folder" if is_folder else "file"
        raise UsageError(f"{output} is not empty: remove it, or name another {what}")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: there is no such directory")


async def _start(client: Api, kept: SavedCrawl) -> int:
    started = await client.post("/crawls", kept.request, {"Idempotency-Key": kept.key})
    number: int = started["id"]
    return number
