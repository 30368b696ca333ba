"""`manyhands state`: what is done with a store of crawls, apart from the crawls in it."""

import argparse
from collections.abc import Callable, Coroutine
from typing import Any

from manyhands.cli.consoles import for_people
from manyhands.cli.seeds import UsageError
from manyhands.cli.state_whole import run_check, run_copy, run_create
from manyhands.shared.crawl.claim import mark_job, mark_queue, marked_by
from manyhands.shared.crawl.store.opening import tag_of
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.masking import masked_url
from manyhands.shared.settings.loading import load

SECTIONS = ("faktory", "crawl")
WHO = "manyhands state adopt"


async def run_state(arguments: argparse.Namespace) -> int:
    return await COMMANDS[arguments.state_command](arguments)


async def run_adopt(arguments: argparse.Namespace) -> int:
    """The store in CRAWL_STATE gets the queues `fetch.NN` of the broker in FAKTORY_URL."""
    settings = load(SECTIONS).settings
    if not settings.crawl.state:
        raise UsageError("set CRAWL_STATE: which store is to have the broker?")
    tag = tag_of(settings.crawl.state)
    place = ", ".join(map(masked_url, settings.crawl.state))
    address = parse_url(settings.faktory.url)
    console = for_people()
    async with Client(address, ca_file=settings.faktory.ca_file) as client:
        marks = marked_by((await client.info())["faktory"].get("queues") or {})
        others = sorted(marks - {tag})
        whose = f"{address}: the queues fetch.NN belong to"
        if not others:
            console.print(f"{whose} {'this store' if marks else 'no store'} already")
            return 0
        listed = ", ".join(others)
        if not arguments.yes:
            raise UsageError(
                f"{whose} the store {listed}. With --yes its mark is removed and they belong to "
                f"{tag} ({place}): workers of {listed} that still run stop fetching "
                "from them. Its crawls and all jobs stay as they are"
            )
        if tag not in marks:
            await client.push(mark_job(tag, WHO))
        await client.queue_remove([mark_queue(other) for other in others])
        console.print(f"{whose} the store {tag} now; the mark of {listed} is removed")
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "create": run_create,
    "check": run_check,
    "copy": run_copy,
    "adopt": run_adopt,
}
