"""What the parts of a crawl tell each other through the broker. Pure.

All of it goes to the queue of a shard, `crawl.07`, and is read by the owner of that shard.
"""

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from shared.jobs import Job, check_queue_name
from shared.urls import shard_number

CRAWL_QUEUE = "crawl"
ALL_CRAWL_QUEUES = f"{CRAWL_QUEUE}.*"
PARSED = "parsed"
LINKS = "links"
RETRY = 25
# Both are done in milliseconds.
RESERVE_FOR_S = 120


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_list(self) -> list[Any]:
        return list(self.__dict__.values())


class PageOfCrawl(Message):
    """What a parse job carries of the crawl that its page belongs to: enough to answer. `key` is
    hexadecimal; `queue` is the one that the answer goes to."""

    crawl: int
    key: str
    queue: str
    depth: int
    obeys_nofollow: bool
    # The header X-Robots-Tag of the answer.
    robots_tag: str


class ParsedMessage(Message):
    """A page was parsed; `links` are canonical URLs, each once. `error` is why there are none."""

    crawl: int
    key: str
    url: str
    depth: int
    links: list[str]
    error: str


class LinksBatch(NamedTuple):
    """Links that pages of one shard have into another: (URL, depth, redirects) each."""

    source: int
    sequence: int
    crawl: int
    links: list[tuple[str, int, int]]


class LinksMessage(Message):
    """Batches from other shards, of any of them."""

    generation: int
    target: int
    batches: list[LinksBatch]

    def to_list(self) -> list[Any]:
        # Plain lists: a job's arguments are JSON, which knows no tuples with names.
        return [self.generation, self.target, [list(batch) for batch in self.batches]]


def crawl_queue(shard: int, shards: int) -> str:
    return f"{CRAWL_QUEUE}.{shard_number(shard, shards)}"


def crawl_queues(shards: int) -> list[str]:
    return [crawl_queue(shard, shards) for shard in range(shards)]


def parsed_job(message: ParsedMessage, queue: str, jid: str) -> Job:
    return _job(PARSED, message, queue, jid)


def links_job(message: LinksMessage, queue: str, jid: str) -> Job:
    return _job(LINKS, message, queue, jid)


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
