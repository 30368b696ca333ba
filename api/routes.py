"""All routes but the two busiest (single.py, many.py)."""

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote

import httpx
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from prometheus_client.core import Metric
from pydantic import BaseModel, ConfigDict, Field, model_validator

from manyhands.api.bodies import read_body
from manyhands.api.crawls.fetch_jobs import FetchJobState, JobState
from manyhands.api.intake import checked
from manyhands.api.keys import Key
from manyhands.api.metrics import (
    as_text,
    crawl_figures,
    look_figures,
    server_figures,
    set_sizes,
    summed,
)
from manyhands.api.openapi_bodies import json_body
from manyhands.api.parts import Parts, broker_failed, soon
from manyhands.api.problems import Problem, too_busy, unavailable
from manyhands.api.siblings import ask_all
from manyhands.shared.errors import FaktoryError, OverBudget
from manyhands.shared.faktory.client import FaktoryVerbs, JobFilter, MutateTarget
from manyhands.shared.http.answers import HeldAnswer
from manyhands.shared.http.limits import PAGE_BYTES
from manyhands.shared.jobs import QUEUE_NAME
from manyhands.shared.jobtypes import JOB_TYPES
from manyhands.shared.version import VERSION

MAX_WHICH_BYTES = 1024 * 1024
# More than the state of one job takes.
STATE_BYTES = 1024
# The largest row number of SQLite; these are the cursors of a set.
MAX_ID = 2**63 - 1

router = APIRouter()


def held(parts: Parts, body: bytes, media_type: str = "application/json") -> Response:
    """An answer that may be large."""
    busy = too_many_pages()
    otherwise = Response(busy.body(), busy.status, dict(busy.headers))
    return HeldAnswer(body, parts.pages, otherwise, media_type)


def too_many_pages() -> Problem:
    return too_busy("too many large answers are being sent already")


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(parts_of)]
QueueName = Annotated[str, Path(pattern=f"^{QUEUE_NAME.pattern}$", max_length=200)]


# Jobs


class Accepted(BaseModel):
    """A job that the broker has."""

    jid: str = Field(examples=["7a1c0f6b2f6a4d0fb2f1c9d3"])
    queue: str = Field(examples=["default"])


class AcceptedList(BaseModel):
    accepted: int
    jobs: list[Accepted]


class LineError(BaseModel):
    line: int
    status: int
    detail: str
    field: str = Field("", description="The field that is wrong, if it can be named")


class AcceptedLines(BaseModel):
    accepted: int
    refused: int
    errors: list[LineError] = Field(description="The first 1,000 of the refused lines")


@router.get("/jobs/{name}", tags=["jobs"], response_model=FetchJobState | JobState)
async def get_job(
    name: Annotated[str, Path(max_length=200, description="The job's jid")],
    parts: PartsOf,
) -> Any:
    """Where a job is. A fetch job that a worker has taken in is in the store; of other jobs only
    the embedded broker can tell."""
    if name in JOB_TYPES:
        raise HTTPException(405)
    if parts.crawls is not None and (found := await parts.crawls.fetch_job(name)) is not None:
        return found
    return await _from_web(parts, f"/jobs/{quote(name, safe='')}", "look up a job", STATE_BYTES)


# Queues


class QueueState(BaseModel):
    name: str
    size: int
    latency_s: float
    paused: bool | None = Field(description="null: a Faktory server does not tell a program")


@router.get("/queues", tags=["queues"])
async def get_queues(parts: PartsOf) -> list[QueueState]:
    """Every queue that has, or had, jobs; as it was a second ago at most."""
    told = (await parts.info())["faktory"]
    sizes, paused = told.get("queues") or {}, told.get("paused")
    latencies = await _latencies(parts, list(sizes))
    return [
        QueueState(
            name=name,
            size=size,
            latency_s=latencies.get(name, 0.0),
            paused=None if paused is None else name in paused,
        )
        for name, size in sorted(sizes.items())
    ]


async def _latencies(parts: Parts, names: list[str]) -> dict[str, float]:
    return await soon(parts.require_broker().queue_latency(names)) if names else {}


class QueueAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CLEAR = "clear"


@router.post("/queues/{name}/{action}", tags=["queues"], status_code=204)
async def change_queue(name: QueueName, action: QueueAction, parts: PartsOf) -> None:
    """Pause: no job of it is handed out. Clear: its jobs are deleted."""
    client = parts.require_broker()
    act = {
        QueueAction.PAUSE: client.queue_pause,
        QueueAction.RESUME: client.queue_resume,
        QueueAction.CLEAR: client.queue_remove,
    }[action]
    try:
        await act([name])
    except FaktoryError as error:
        raise broker_failed(error) from error


# Sets


class Which(BaseModel):
    """The jobs that are meant: by jid, by type, or all."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"minProperties": 1, "maxProperties": 1},
    )

    # The defaults say that it was not given.
    jids: Annotated[list[str], Field(min_length=1, max_length=10_000)] = []
    jobtype: Annotated[str, Field(min_length=1)] = ""
    all: Literal[True, None] = Field(None, json_schema_extra={"const": True})

    @model_validator(mode="after")
    def _one_way(self) -> "Which":
        if len(self.model_fields_set) != 1 or not (self.jids or self.jobtype or self.all):
            raise ValueError("say which jobs: jids, or jobtype, or all")
        return self


class SetAction(StrEnum):
    REQUEUE = "requeue"
    KILL = "kill"
    DISCARD = "discard"


class SetJob(BaseModel):
    id: int
    at: str
    job: dict[str, Any]


class SetPage(BaseModel):
    total: int
    jobs: list[SetJob]
    next: int | None = Field(description="Give it as `after` for the next page")


@router.get("/sets/{name}", tags=["sets"], response_model=SetPage)
async def get_set(
    name: MutateTarget,
    parts: PartsOf,
    after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Any:
    """A page of the scheduled, retry or dead jobs. Only the embedded broker can list them."""
    page = f"/sets/{name}?after={after}&limit={limit}"
    return await _from_web(parts, page, f"list {name} jobs", PAGE_BYTES)


@router.post(
    "/sets/{name}/{action}", tags=["sets"], status_code=204, openapi_extra=json_body(Which)
)
async def change_set(
    name: MutateTarget, action: SetAction, request: Request, parts: PartsOf
) -> None:
    """Requeue: into their queues now. Kill: to the dead set. Discard: delete."""
    key: Key = request.scope["key"]
    body = await read_body(
        request.receive, MAX_WHICH_BYTES, lambda: parts.bulk.hold(key, MAX_WHICH_BYTES)
    )
    which = checked(Which, body, "body")
    try:
        await _mutate(parts.require_broker(), name, action, which)
    except FaktoryError as error:
        raise broker_failed(error) from error


async def _mutate(
    client: FaktoryVerbs, name: MutateTarget, action: SetAction, which: Which
) -> None:
    if which.all and action is SetAction.DISCARD:
        await client.clear(name)
        return
    # The pattern that every job's JSON has.
    chosen = (
        JobFilter(pattern="*") if which.all else JobFilter(jids=which.jids, jobtype=which.jobtype)
    )
    act = {
        SetAction.REQUEUE: client.requeue,
        SetAction.KILL: client.kill,
        SetAction.DISCARD: client.discard,
    }[action]
    await act(name, chosen)


async def _from_web(parts: Parts, path: str, what: str, size: int) -> Response:
    """Ask the broker's HTTP side for an answer of at most `size` bytes; a real Faktory has pages
    for people there, and no JSON."""
    if not parts.require_broker().is_our_broker:
        page = str(parts.web.base_url)
        raise Problem(501, f"a Faktory server cannot {what} for a program: see {page}")
    try:
        with parts.pages.hold(size):
            answer = await parts.web.get(path)
        answer.raise_for_status()
    except OverBudget:
        raise too_many_pages() from None
    except httpx.HTTPStatusError as error:
        raise _refused_by_web(error.response) from None
    except httpx.HTTPError as error:
        raise Problem(502, f"the broker's HTTP side does not answer: {error!r}") from error
    return held(parts, answer.content)


def _refused_by_web(answer: httpx.Response) -> Problem:
    if answer.status_code == HTTPStatus.NOT_FOUND:
        return Problem(404, "not known to the broker: done, or never queued")
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        return unavailable("the broker's HTTP side is busy", retry_after_s=1)
    return Problem(502, f"the broker's HTTP side answered {answer.status_code}")


# Operations


@router.get("/stats", tags=["operations"])
async def get_stats(parts: PartsOf) -> dict[str, Any]:
    """The broker's own figures, in Faktory's shape."""
    info = await parts.info()
    return info | {"faktory": info["faktory"] | {"sets": set_sizes(info)}}


class Status(BaseModel):
    status: str


@router.get("/healthz", tags=["operations"])
async def get_health() -> Status:
    """This process turns."""
    return Status(status="ok")


class Readiness(Status):
    damaged_shards: list[str]


@router.get("/readyz", tags=["operations"])
async def get_ready(parts: PartsOf) -> Readiness:
    """The broker is connected, and the service is not shutting down. Damaged shards hold up only
    crawls, so they are merely named."""
    parts.refuse_if_draining()
    parts.require_broker()
    damaged = await parts.crawls.damaged_shards() if parts.crawls is not None else []
    return Readiness(status="ready", damaged_shards=damaged)


class Version(BaseModel):
    version: str


@router.get("/version", tags=["operations"])
async def get_version() -> Version:
    return Version(version=VERSION)


@router.get("/metrics", tags=["operations"], response_class=Response)
async def get_metrics(parts: PartsOf) -> Response:
    """For Prometheus: this service, all its processes, and the broker."""
    info: dict[str, Any] | None = None
    latencies: dict[str, float] = {}
    try:
        info = await parts.info()
        latencies = await _latencies(parts, list(info["faktory"].get("queues") or {}))
    except Problem:
        pass  # that it is away is a figure too
    own = summed(await ask_all(parts.run_directory))
    text = as_text([*own, *server_figures(info, latencies), *await _crawl_figures(parts)])
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _crawl_figures(parts: Parts) -> list[Metric]:
    if parts.crawls is None:
        return []
    try:
        states, look = await parts.crawls.states(), await parts.crawls.look()
        return [crawl_figures(states), *look_figures(look)]
    except Problem:
        return []
