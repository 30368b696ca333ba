"""What the handlers of crawls and of fetch jobs share in one process: the owner of shards.

There is one, whichever of the stages `crawl` and `fetch` the process was given: whoever owns a
shard does all of its work. A job whose shard has moved to another process is queued again there.
"""

from datetime import timedelta
from functools import partial
from typing import Any

from manyhands.shared.crawl.fetch_jobs import FetchJob, cause_to_tell
from manyhands.shared.crawl.messages import (
    ALL_CRAWL_QUEUES,
    LINKS,
    LINKS_VERSION,
    PARSED,
    PARSED_VERSION,
    LinksBatch,
    LinksMessage,
    ParsedMessage,
    ParsedPage,
    links_job,
    parsed_job,
)
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.errors import ConfigError, InvalidJob, InvalidUrl
from manyhands.shared.jobs import utc_now
from manyhands.shared.jobtypes import FETCH
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.urls import fetch_queue, parse_url
from manyhands.worker.crawl.owner import Owner
from manyhands.worker.crawl.politeness.robots import check_user_agent
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead, Defer, Move
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.jobs.stage_services import StageNeeds
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from manyhands.worker.records import Capture
from manyhands.worker.service.stages import CRAWL_STAGE

# About as long as a lease takes to change hands.
AGAIN_S = 1.0


async def parsed(pages: list[ParsedPage], context: JobContext) -> None:
    owner = _owner()
    admission = owner.admission
    for page in pages:
        if page.error:
            context.log.warning("a page has no links", url=page.url, reason=page.error)
        if page.setback:
            reason = page.setback.reason
            context.log.warning("a page came to nothing", url=page.url, reason=reason)
    by_queue: dict[str, list[ParsedPage]] = {}
    for page in await admission.parsed(pages):
        # Its shard has another owner by now, or the number of shards has changed.
        queue = owner.queue_of(admission.shard_of(page.url))
        by_queue.setdefault(queue, []).append(page)
    for number, (queue, elsewhere) in enumerate(by_queue.items()):
        again = parsed_job(ParsedMessage(pages=elsewhere), queue, f"{context.id}+{number}")
        again.at = utc_now() + timedelta(seconds=AGAIN_S)
        context.push(again)


async def links(generation: int, target: int, batches: list[Any], context: JobContext) -> None:
    owner = _owner()
    message = LinksMessage(
        generation=generation,
        target=target,
        batches=[LinksBatch(*batch) for batch in batches],
    )
    try:
        await owner.admission.links(message)
    except LeaseLost:
        again = links_job(message, owner.queue_of(target), f"{context.id}+")
        again.at = utc_now() + timedelta(seconds=AGAIN_S)
        context.push(again)


async def fetch_politely(url: str, context: JobContext) -> None:
    """Done when the store has it: its turn comes when its domain may be asked."""
    fields = context.fields
    cause = cause_to_tell(fields)
    if cause is not None:
        raise Dead(cause)
    owner = _owner()
    try:
        target = parse_url(url)
        job = FetchJob.of(fields, context.id, url)
    except (InvalidUrl, InvalidJob) as error:
        # In the dead set people can see why; an ACK would drop it silently.
        raise Dead(str(error)) from error
    shards = owner.admission.shards
    shard = owner.admission.shard_of(target.text)
    if fields.get("queue") != fetch_queue(shard, shards):
        # Pushed by somebody who counts the shards in another way.
        owner.jobs.moved_one()
        raise Move(fetch_queue(shard, shards))
    try:
        await owner.jobs.admit(shard, target, job)
    except LeaseLost:
        raise Defer(utc_now() + timedelta(seconds=AGAIN_S)) from None


def offer_owner(process: ProcessSetup) -> None:
    """For the stages `crawl` and, if fetch jobs are polite and no other handler takes them,
    `fetch`."""
    process.stage_services[CRAWL_STAGE] = partial(make_owner, process)
    for jobtype, handler, version in MESSAGES:
        if REGISTRY.get(jobtype) is None:
            REGISTRY.job(jobtype, queue=ALL_CRAWL_QUEUES, version=version)(handler)
    if process.settings.fetch.polite and REGISTRY.get(FETCH) is None:
        # Whoever owns a shard is the only one who takes its fetch jobs.
        REGISTRY.job(FETCH)(fetch_politely)
        process.stage_services[FETCH] = partial(make_owner, process)


def make_owner(process: ProcessSetup, needs: StageNeeds) -> Owner:
    """Of this process; called when it runs one of the stages."""
    settings = needs.settings
    if not needs.state:
        raise ConfigError("the stage crawl needs CRAWL_STATE, where the state of crawls is kept")
    check_user_agent(settings.fetch.user_agent)
    allowed = AddressRule(settings.allow.nets)
    fetcher = Http1Fetcher(
        settings.fetch,
        allowed,
        budget=process.page_budget,
        keeps_unwanted=needs.sinks.takes(Capture),
    )
    process.resources.close_at_stop(fetcher.close)
    owner = Owner(
        settings.crawl.model_copy(update={"state": needs.state}),
        settings.fetch,
        fetcher,
        slots=needs.slots,
        in_flight=process.page_budget,
        push=needs.push,
        sinks=needs.sinks,
        # By the parse stage, which has the same settings.
        ends_are_recorded=bool(settings.sinks.urls),
        set_queues=needs.set_queues,
        set_fetch_queues=needs.set_fetch_queues,
    )
    _OWNERS.append(owner)
    return owner


def _owner() -> Owner:
    if not _OWNERS:
        raise ConfigError("this process owns no shards: WORKER_STAGES does not name crawl")
    return _OWNERS[-1]


# What an owner is sent, who takes it, and the newest version that is understood.
MESSAGES = ((PARSED, parsed, PARSED_VERSION), (LINKS, links, LINKS_VERSION))
# Of this process: none or one.
_OWNERS: list[Owner] = []
