"""`fetch`: one URL → one page → one `parse` job that carries it.

A repeat of the job makes the same parse job again: its jid follows from this job's identity.
"""

from typing import NoReturn

from shared.errors import InvalidUrl
from shared.jobs import Job, rfc3339
from shared.jobtypes import JOB_TYPES, PARSE_QUEUE, ParseArguments
from worker.bodies import pack
from worker.context import JobContext
from worker.html import is_html
from worker.net.addresses import AddressRule
from worker.net.aiohttp_fetcher import AiohttpFetcher
from worker.net.fetcher import Fetcher, Page, PermanentFetchError, TemporaryFetchError
from worker.outcomes import Dead, Retry
from worker.page_ids import parse_id
from worker.registry import job
from worker.resources import close_at_stop
from worker.settings import current

SETTINGS = current().fetch
_AIOHTTP = AiohttpFetcher(SETTINGS, AddressRule(current().allow.nets))
close_at_stop(_AIOHTTP.close)
FETCHER: Fetcher = _AIOHTTP


@job("fetch")
async def fetch(url: str, context: JobContext) -> None:
    try:
        page = await FETCHER.fetch(url)
    except (InvalidUrl, PermanentFetchError) as error:
        # In the dead set somebody can see why; acknowledged it would be gone without a word.
        raise Dead(str(error)) from error
    except TemporaryFetchError as error:
        _come_back(error)
    context.push(parse_job(page, context.id, SETTINGS.truncate_bytes))


def parse_job(page: Page, fetch_id: str, truncate_bytes: int) -> Job:
    """An error page is recorded, but nothing of it is parsed; nor is what is not HTML."""
    is_parsed = page.status < 400 and is_html(page.content_type)
    body = page.body[:truncate_bytes] if is_parsed else b""
    kind = JOB_TYPES["parse"]
    arguments = ParseArguments(
        url=page.url,
        final_url=page.final_url,
        status=page.status,
        content_type=page.content_type,
        body=pack(body),
        is_truncated=page.is_truncated or (is_parsed and len(page.body) > truncate_bytes),
        fetched_at=rfc3339(page.fetched_at),
    )
    return Job(
        jobtype=kind.name,
        args=arguments.to_list(),
        queue=PARSE_QUEUE,
        jid=parse_id(fetch_id),
        retry=kind.retry,
        reserve_for=kind.reserve_for_s,
    )


def _come_back(error: TemporaryFetchError) -> NoReturn:
    """When the server said when, then; else by the job server's own growing delays."""
    if error.retry_after_s is None:
        raise error
    raise Retry(error.retry_after_s, str(error)) from error
