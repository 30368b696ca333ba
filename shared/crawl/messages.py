"""The messages that the parts of a crawl send each other through the broker. Pure.

`parse_pages` carries fetched pages, also from archives, to the parse stage. Whoever parses them
needs no store: the job says where the answer goes. Everything else goes to the queue of a shard and
is read by the owner of that shard: `crawl.9f03a1c2d4.07` has the tag of the store in its name, so
that crawls of several stores can run on one broker.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.page_fields import DEFAULT_NAME, RecordKind
from manyhands.shared.grouping import grouped
from manyhands.shared.jobs import FIRST_VERSION, Job, check_queue_name
from manyhands.shared.urls import shard_number

CRAWL_QUEUE = "crawl"
ALL_CRAWL_QUEUES = f"{CRAWL_QUEUE}.*"
PARSE_PAGES = "parse_pages"
# Since the first, pages bring along how they came and what of them is recorded; since the second,
# which URL a fetch job asked for, and which page functions get them.
PAGES_VERSION = 3
# Since the first, with what a page function made of a page.
PARSED_VERSION = 2
# Since the first, with notes.
LINKS_VERSION = 2
PARSED = "parsed"
LINKS = "links"
# For pages that belong to no crawl: the crawl's number, and the queue for their links.
NO_CRAWL = 0
NO_ANSWER = ""
# Pages of one job: about 20 ms of parsing.
PAGES_OF_JOB = 16
BYTES_OF_JOB = 256 * 1024
RETRY = 25
# All are done in milliseconds, but for page functions: those who call them watch the time.
RESERVE_FOR_S = 120
# The members of tuples that every worker knows; the others are sent only where they say something.
_KNOWN_OF_PARSED = 8
_KNOWN_OF_LINK = 3


T = TypeVar("T")


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_list(self) -> list[Any]:
        return list(self.__dict__.values())


class FetchedPage(NamedTuple):
    """A page of a crawl, or of NO_CRAWL: of a fetch job or an archive. `visit` names this fetch
    and its record; `key` is hexadecimal; `robots_tag` and `refresh` are headers of the
    answer; `body` is packed by worker.pages.bodies. `cuts` lists what was cut, and `is_truncated`
    says whether anything was, by us or before. `follows` are the sources of URLs besides links,
    names of shared.crawl.discovery. `fields` are chosen for its record, see
    shared.crawl.page_fields; `arrival` is None if none of them asks for it. Of another `kind` than
    PAGE there is only a record, with a `reason`, and no answer. `asked_url` is that of a fetch job,
    before redirects. `handlers` names the module whose page functions get the page; `note` is what
    it was followed with, as JSON, and `attempts` how often it came to nothing."""

    visit: str
    crawl: int
    key: str
    url: str
    depth: int
    status: int
    content_type: str
    robots_tag: str
    obeys_nofollow: bool
    is_truncated: bool
    fetched_at: str
    body: str
    cuts: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    refresh: str = ""
    fields: tuple[str, ...] = (DEFAULT_NAME,)
    arrival: Arrival | None = None
    kind: str = RecordKind.PAGE
    reason: str = ""
    asked_url: str = ""
    handlers: str = ""
    note: str = ""
    attempts: int = 0

    @property
    def is_of_job(self) -> bool:
        return bool(self.asked_url)


class PagesMessage(Message):
    """Pages fetched by one process. Their links go to the queue `answer_to`, or nowhere for
    NO_ANSWER."""

    answer_to: str
    pages: list[FetchedPage]

    def to_list(self) -> list[Any]:
        return [self.answer_to, [_plain_page(page) for page in self.pages]]


class Setback(NamedTuple):
    """Why a page came to nothing by a page function, and in more words, such as a traceback. It is
    fetched again after so many seconds; None: it has failed. `attempts` are those so far, this one
    included; `status` is that of the answer."""

    reason: str
    detail: str
    again_after_s: float | None
    attempts: int
    status: int


class ParsedPage(NamedTuple):
    """`links` are canonical URLs, each once, one deeper than `depth`. `error` is why there are
    none, `cuts` why there may be more in the page: names of shared.crawl.cuts. `counts` are further
    counters of the crawl and what the page adds to them. `noted` are links that come before the
    others, with what they were followed with."""

    crawl: int
    key: str
    url: str
    depth: int
    links: list[str]
    error: str
    cuts: tuple[str, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    noted: tuple[tuple[str, str], ...] = ()
    setback: Setback | None = None

    @property
    def needs_version(self) -> int:
        return PARSED_VERSION if self.noted or self.setback else FIRST_VERSION


class ParsedMessage(Message):
    """Parsed pages, most of them from the shard whose queue the message is in."""

    pages: list[ParsedPage]

    def to_list(self) -> list[Any]:
        return [[_plain_parsed(page) for page in self.pages]]


# URL, depth, redirects that led to it, and what it was followed with.
Link = tuple[str, int, int] | tuple[str, int, int, str]


class LinksBatch(NamedTuple):
    """Links from pages of one shard into another."""

    source: int
    sequence: int
    crawl: int
    links: list[Link]


class LinksMessage(Message):
    """Batches from other shards, of any of them."""

    generation: int
    target: int
    batches: list[LinksBatch]

    def to_list(self) -> list[Any]:
        return [self.generation, self.target, _plain(self.batches)]


def _plain(tuples: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """A job's arguments are JSON, which knows no tuples with names."""
    return [list(one) for one in tuples]


def _plain_page(page: FetchedPage) -> list[Any]:
    *plain, arrival, kind, reason, asked_url, handlers, note, attempts = page
    plain.append(None if arrival is None else list(arrival))
    if handlers:
        return [*plain, kind, reason, asked_url, handlers, note, attempts]
    if asked_url:
        return [*plain, kind, reason, asked_url]
    return plain if kind == RecordKind.PAGE else [*plain, kind, reason]


def _plain_parsed(page: ParsedPage) -> list[Any]:
    plain = list(page)
    if page.needs_version < PARSED_VERSION:
        return plain[:_KNOWN_OF_PARSED]
    return [*plain[:-1], None if page.setback is None else list(page.setback)]


def crawl_queue(tag: str, shard: int, shards: int) -> str:
    """`tag` is that of the store."""
    return f"{CRAWL_QUEUE}.{tag}.{shard_number(shard, shards)}"


def crawl_queues(tag: str, shards: int) -> list[str]:
    return [crawl_queue(tag, shard, shards) for shard in range(shards)]


def untagged_crawl_queues(shards: int) -> list[str]:
    """As the queues were called while a broker served one store."""
    return [f"{CRAWL_QUEUE}.{shard_number(shard, shards)}" for shard in range(shards)]


def in_jobs(pages: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Pages that are to travel together, in their order. `size_of` is in bytes, as packed."""
    return grouped(pages, size_of, most_size=BYTES_OF_JOB, most_items=PAGES_OF_JOB)


def pages_job(message: PagesMessage, queue: str, jid: str) -> Job:
    made = _job(PARSE_PAGES, message, queue, jid)
    made.version = PAGES_VERSION
    return made


def parsed_job(message: ParsedMessage, queue: str, jid: str) -> Job:
    made = _job(PARSED, message, queue, jid)
    made.version = max((page.needs_version for page in message.pages), default=FIRST_VERSION)
    return made


def links_job(message: LinksMessage, queue: str, jid: str) -> Job:
    made = _job(LINKS, message, queue, jid)
    if any(len(link) > _KNOWN_OF_LINK for batch in message.batches for link in batch.links):
        made.version = LINKS_VERSION
    return made


def _job(jobtype: str, message: Message, queue: str, jid: str) -> Job:
    check_queue_name(queue)
    return Job(
        jobtype=jobtype,
        args=message.to_list(),
        queue=queue,
        jid=jid,
        retry=RETRY,
        reserve_for=RESERVE_FOR_S,
    )
