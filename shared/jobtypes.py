"""Which types of job there are, what arguments each takes, and where it is queued.

A producer names arguments (`{"a": 1, "b": 2}`); on the wire they are a list in declared order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from manyhands.shared.jobs import DEFAULT_QUEUE, DEFAULT_RESERVE_FOR_S, DEFAULT_RETRY
from manyhands.shared.urls import FETCH_QUEUE, parse_url, shard_queue
from manyhands.shared.warc_places import parse_destination, parse_source

FETCH = "fetch"
PARSE_QUEUE = "parse"
# Since the first, a page brings along how it came.
PARSE_VERSION = 2
WARC_QUEUE = "warc"
EXPORT_QUEUE = "export"


class Arguments(BaseModel):
    """Base of the argument models: what a type does not know is refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def to_list(self) -> list[Any]:
        return list(self.__dict__.values())


class AddArguments(Arguments):
    """The smallest useful job, for first steps and smoke tests."""

    a: int = Field(examples=[1])
    b: int = Field(examples=[2])


class FetchArguments(Arguments):
    """Fetch one page, which is then parsed."""

    url: str = Field(examples=["https://example.com/"])

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        parse_url(url)
        return url


class ParseArguments(Arguments):
    """Parse a page that `fetch` has got. `body` is base64 of zstd; `cuts` names what was cut,
    and `arrival` says how the page came."""

    url: str
    final_url: str
    status: int
    content_type: str
    body: str
    is_truncated: bool
    fetched_at: str
    cuts: list[str] | None = None
    arrival: list[Any] | None = Field(default=None, description="see shared.crawl.arrival")


class WarcArguments(Arguments):
    """Decode a part of a WARC or WAT file from an offset on: its pages become `parse_pages` jobs,
    and the rest of the file another job like this one. `skip` is how many records of the member at
    the offset are done; only files packed as a whole need it."""

    source: str = Field(examples=["https://data.example.com/crawl.warc.gz", "s3://bucket/key"])
    offset: int = Field(default=0, ge=0)
    skip: int = Field(default=0, ge=0)

    @field_validator("source")
    @classmethod
    def _is_a_source(cls, source: str) -> str:
        parse_source(source)
        return source


class ExportArguments(Arguments):
    """Write the records of a WARC, WAT or WET file to one Parquet file in a directory or under a
    prefix of S3; its name follows from that of the source."""

    source: str = Field(examples=["https://data.example.com/crawl.warc.gz", "s3://bucket/key"])
    destination: str = Field(examples=["s3://bucket/tables", "tables"])

    @field_validator("source")
    @classmethod
    def _is_a_source(cls, source: str) -> str:
        parse_source(source)
        return source

    @field_validator("destination")
    @classmethod
    def _is_a_destination(cls, destination: str) -> str:
        parse_destination(destination)
        return destination


@dataclass(slots=True, frozen=True)
class JobType:
    """`queues` are those from which it is consumed, in the notation of WORKER_QUEUES; `queue_of`
    chooses one of them for a job by its arguments and the number of shards."""

    name: str
    arguments: type[Arguments]
    queues: str
    queue_of: Callable[[Any, int], str]
    retry: int = DEFAULT_RETRY
    # Long enough for the slowest job of the type; a job of a dead worker waits this long, too.
    reserve_for_s: int = DEFAULT_RESERVE_FOR_S


def _queue_of_fetch(arguments: FetchArguments, shards: int) -> str:
    return shard_queue(arguments.url, shards)


def _always(queue: str) -> Callable[[Any, int], str]:
    return lambda _arguments, _shards: queue


JOB_TYPES = {
    kind.name: kind
    for kind in (
        JobType("add", AddArguments, DEFAULT_QUEUE, _always(DEFAULT_QUEUE)),
        JobType(
            FETCH,
            FetchArguments,
            f"{FETCH_QUEUE}.*",
            _queue_of_fetch,
            # Two hours; with Faktory's 25 a page that always answers 500 would be tried for weeks.
            retry=8,
            reserve_for_s=300,
        ),
        JobType("parse", ParseArguments, PARSE_QUEUE, _always(PARSE_QUEUE), reserve_for_s=300),
        # A source that cannot be reached is tried for two hours.
        JobType("warc", WarcArguments, WARC_QUEUE, _always(WARC_QUEUE), retry=8),
        JobType(
            "export",
            ExportArguments,
            EXPORT_QUEUE,
            _always(EXPORT_QUEUE),
            retry=8,
            # A gigabyte takes seconds, over a slow line many minutes.
            reserve_for_s=3600,
        ),
    )
}
