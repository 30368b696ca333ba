"""What is shown of a crawl, from the answers of the API and the worker. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from manyhands.shared.crawl.states import CrawlState

PARSE_QUEUE = "parse"
_CRAWL_STATE = re.compile(
    r'^manyhands_worker_crawl_state\{[^}]*figure="(\w+)"[^}]*\} (\S+)$', re.MULTILINE
)


@dataclass(slots=True, frozen=True)
class Hosts:
    """Domains that the workers have in memory: those that may be visited now, and those that must
    wait; and the slots in which a page is being fetched. Updated every five seconds."""

    ready: int
    waiting: int
    fetching: int


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A crawl at one moment. `hosts` is None when no worker reports any."""

    id: int
    state: CrawlState
    reason: str
    limited_by: str
    urls: Mapping[str, int]
    counters: Mapping[str, int]
    pages_per_s: float | None
    # From the first page to the end; 0 before that.
    seconds: float
    errors: Sequence[Mapping[str, Any]]
    # What was left out, by reason; hosts that are left alone, and domains that operators hold.
    left_out: Mapping[str, int]
    put_off: Sequence[Mapping[str, Any]]
    held: Sequence[Mapping[str, Any]]
    parse_backlog: int
    hosts: Hosts | None
    seed_file_refused: int = 0

    @property
    def pages(self) -> int:
        return self.counters["pages"]

    @property
    def done(self) -> int:
        return self.urls["done"]

    @property
    def movement(self) -> tuple[object, ...]:
        """Changes whenever something happens."""
        return (self.state, *self.urls.values(), *self.counters.values())


def make_snapshot(
    view: Mapping[str, Any],
    errors: Sequence[Mapping[str, Any]],
    queues: Iterable[Mapping[str, Any]],
    metrics: str,
) -> Snapshot:
    backlog = sum(queue["size"] for queue in queues if queue["name"] == PARSE_QUEUE)
    return Snapshot(
        id=view["id"],
        state=CrawlState(view["state"]),
        reason=view["reason"],
        limited_by=view["limited_by"],
        urls=view["urls"],
        counters=view["counters"],
        pages_per_s=view["pages_per_s"] or view["mean_pages_per_s"],
        seconds=_seconds(view["started_at"], view["ended_at"]),
        errors=errors,
        left_out=view["left_out"],
        put_off=view["put_off"],
        held=view["held"],
        seed_file_refused=view["seed_file_refused"],
        parse_backlog=backlog,
        hosts=hosts_of(metrics),
    )


def _seconds(started_at: str | None, ended_at: str | None) -> float:
    if started_at is None or ended_at is None:
        return 0.0
    return (datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)).total_seconds()


def hosts_of(metrics: str) -> Hosts | None:
    """From the `/metrics` of a worker service; None when no process reports them."""
    told: dict[str, int] = {}
    for figure, number in _CRAWL_STATE.findall(metrics):
        told[figure] = told.get(figure, 0) + int(float(number))
    if not {"ready", "waiting", "busy"} <= told.keys():
        return None
    return Hosts(told["ready"], told["waiting"], told["busy"])


def progress_line(snapshot: Snapshot) -> str:
    """Without the number of pages done, which the bar shows."""
    parts = [
        "– pages/s" if snapshot.pages_per_s is None else f"{snapshot.pages_per_s:,.1f} pages/s"
    ]
    if snapshot.hosts is not None:
        hosts = snapshot.hosts
        parts += [f"hosts {hosts.ready:,} ready, {hosts.waiting:,} waiting"]
        parts += [f"fetching {hosts.fetching:,}"]
    parts += [f"queue {snapshot.urls['queued'] + snapshot.urls['claimed']:,}"]
    parts += [f"parse backlog {snapshot.parse_backlog:,}", errors_told(snapshot)]
    return " · ".join(parts)


def errors_told(snapshot: Snapshot) -> str:
    """How many, and what the last one was."""
    errors = [error for error in snapshot.errors if not is_a_rule(error["reason"])]
    if not errors:
        return "errors 0"
    last = max(errors, key=lambda error: str(error["last_at"]))
    host = urlsplit(last["sample_url"]).netloc
    return f"errors {error_count(snapshot):,}, last: {last['reason']} ({host})"


def error_count(snapshot: Snapshot) -> int:
    """URLs that failed, and tries that will be repeated."""
    return sum(error["count"] for error in snapshot.errors if not is_a_rule(error["reason"]))


def is_a_rule(reason: str) -> bool:
    """Left out on purpose: not errors."""
    rules = ("content type", "domain blocked", "crawl-delay", "purged")
    return reason == "robots.txt" or reason.startswith(rules)


class QueueGroup(NamedTuple):
    """A queue, or those of all shards: `crawl.*`."""

    name: str
    jobs: int
    oldest_s: float
    paused: str


def queue_groups(queues: Iterable[Mapping[str, Any]]) -> list[QueueGroup]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for queue in queues:
        base, _, number = queue["name"].rpartition(".")
        name = f"{base}.*" if base and number.isdecimal() else queue["name"]
        groups.setdefault(name, []).append(queue)
    return [
        QueueGroup(
            name,
            sum(queue["size"] for queue in group),
            max(queue["latency_s"] for queue in group),
            _are_paused([queue["paused"] for queue in group]),
        )
        for name, group in sorted(groups.items())
    ]


def _are_paused(paused: Sequence[bool | None]) -> str:
    """Of servers that do not tell, nothing is said."""
    if all(paused):
        return "paused"
    return "partly paused" if any(paused) else ""


def why_nothing(snapshot: Snapshot) -> str | None:
    """Why a crawl that has ended has not one page, for people who expected some."""
    if snapshot.pages or snapshot.urls["done"]:
        return None
    admitted = snapshot.counters["admitted"]
    if admitted and snapshot.urls["disallowed"] == admitted:
        return "robots.txt forbids all of it: the site does not want to be crawled"
    if snapshot.errors:
        most = snapshot.errors[0]
        return f"{most['reason']} ({most['count']} ×), such as {most['sample_url']}"
    return snapshot.reason or None


def put_off(domains: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why a crawl stands still: the domains that are left alone, and until when."""
    told = []
    for domain in domains:
        times = [origin["ready_at"] for origin in domain["origins"] if origin["ready_at"]]
        times += [domain["next_at"]] if domain["next_at"] else []
        if times:
            reasons = sorted({origin["reason"] for origin in domain["origins"]} - {""})
            why = f" ({', '.join(reasons)})" if reasons else ""
            told.append(f"{domain['domain']} is left alone until {max(times)[11:19]} UTC{why}")
    return told
