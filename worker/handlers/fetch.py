"""`fetch`: one URL → one page → one `parse` job that carries it.

The job is taken into the store, and its URL fetched when its domain may be asked, see `owning`.
With FETCH_POLITE=false it is fetched at once, here, whatever others of its URL there were: without
a store nobody knows of them. A repeat of such a job makes the same parse job again: its jid follows
from this job's identity.
"""

from functools import partial

from manyhands.shared.crawl.fetch_jobs import UNIQUE_FOR_S
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.jobtypes import FETCH
from manyhands.shared.logs import get_logger
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.worker.handlers.outcomes import as_outcomes
from manyhands.worker.handlers.owning import fetch_politely, make_owner, offer_owner
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import job, setup
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.net.captures import capture_of
from manyhands.worker.net.fetcher import Fetcher
from manyhands.worker.net.following import FollowingFetcher
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from manyhands.worker.pages.parse_jobs import parse_job
from manyhands.worker.records import Capture

# Made by `make_fetcher`.
SETTINGS: FetchSettings
FETCHER: Fetcher
UNIQUE_IN_VAIN: "UniqueInVain"


class UniqueInVain:
    """Jobs that asked for what only a store can do. State: how many; of the first is told at once,
    of all at the end of the process."""

    def __init__(self) -> None:
        self.jobs = 0
        self._log = get_logger("fetch")

    def one(self) -> None:
        self.jobs += 1
        if self.jobs == 1:
            self._log.warning(
                f"a fetch job has {UNIQUE_FOR_S}: with FETCH_POLITE=false it is fetched even so,"
                " and so are all that follow"
            )

    async def tell(self) -> None:
        if self.jobs:
            self._log.warning(
                f"fetch jobs with {UNIQUE_FOR_S} were fetched whatever others there were",
                jobs=self.jobs,
            )


@setup
def make_fetcher(process: ProcessSetup) -> None:
    global SETTINGS, FETCHER, UNIQUE_IN_VAIN
    SETTINGS = process.settings.fetch
    if SETTINGS.polite:
        process.stage_services[FETCH] = partial(make_owner, process)
        offer_owner(process)
        return
    allowed = AddressRule(process.settings.allow.nets)
    plain = Http1Fetcher(SETTINGS, allowed, budget=process.page_budget)
    process.resources.close_at_stop(plain.close)
    UNIQUE_IN_VAIN = UniqueInVain()
    process.resources.close_at_stop(UNIQUE_IN_VAIN.tell)
    FETCHER = FollowingFetcher(plain, SETTINGS)


@job(FETCH)
async def fetch(url: str, context: JobContext) -> None:
    if SETTINGS.polite:
        await fetch_politely(url, context)
    else:
        await fetch_at_once(url, context)


async def fetch_at_once(url: str, context: JobContext) -> None:
    if UNIQUE_FOR_S in context.custom:
        UNIQUE_IN_VAIN.one()
    with as_outcomes(InvalidUrl):
        page = await FETCHER.fetch(url)
    # Until the broker has what is made of it.
    context.keep(page.hold)
    if context.can_emit(Capture):
        *hops, last = page.answers
        for number, hop in enumerate(hops):
            hop_id = f"{context.id}.answer.{number}"
            context.emit(capture_of(hop, url=hop.url, id=hop_id, fetched_at=page.fetched_at))
        context.emit(capture_of(last, url=last.url, id=context.id, fetched_at=page.fetched_at))
    context.push(
        parse_job(
            url=page.url,
            final_url=page.final_url,
            status=page.status,
            content_type=page.content_type,
            body=page.body,
            cut=page.cut,
            arrival=page.arrival,
            fetched_at=page.fetched_at,
            truncate_bytes=SETTINGS.truncate_bytes,
            fetch_id=context.id,
        )
    )
