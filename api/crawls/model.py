"""What is sent and answered about crawls. Pure."""

from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from manyhands.shared.crawl.spec import MAX_LABELS, CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import DomainRule

# More of them are sent as lines.
MAX_SEEDS = 10_000
MAX_DRY_RUN_URLS = 1000
MAX_DELAY_S = 86_400
FINGERPRINT_BYTES = 16

UrlStateName = Literal[
    "queued",
    "claimed",
    "parsing",
    "done",
    "redirected",
    "failed",
    "disallowed",
    "skipped",
    "cancelled",
]
# Of crawls; fetch jobs have more.
URL_STATES: tuple[str, ...] = get_args(UrlStateName)
# Of all names and values together, in UTF-8: every listing shows them.
MAX_LABEL_BYTES = 4096


def _are_labels(labels: dict[str, str]) -> dict[str, str]:
    size = sum(len(text.encode()) for label in labels.items() for text in label)
    if size > MAX_LABEL_BYTES:
        raise ValueError(f"labels have {MAX_LABEL_BYTES} bytes together at most, not {size}")
    return labels


Labels = Annotated[dict[str, str], Field(max_length=MAX_LABELS), AfterValidator(_are_labels)]
Seeds = Annotated[tuple[str, ...], Field(max_length=MAX_SEEDS)]


class CrawlRequest(CrawlSpec):
    """A crawl and its seeds."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "contact": "me@example.org",
                "seeds": ["https://example.org/"],
                "scope": {"within": "domains", "max_depth": 5},
                "limits": {"pages": 1000},
                "labels": {"team": "search"},
            }
        }
    )

    labels: Labels = Field(
        default={}, description=f"names and values, {MAX_LABEL_BYTES} bytes together at most"
    )
    seeds: Seeds = ()
    more_seeds: bool = Field(
        default=False,
        description="seeds will follow as lines; nothing is fetched before they have ended with "
        "`POST /crawls/{crawl}/seeds?last=true`",
    )

    @model_validator(mode="after")
    def _will_have_seeds(self) -> Self:
        if not self.seeds and self.seed_file is None and not self.more_seeds:
            raise ValueError("there are no seeds: give seeds, seed_file or more_seeds")
        if self.seed_file is not None and self.more_seeds:
            raise ValueError("give seed_file or more_seeds, not both")
        return self

    def spec(self) -> CrawlSpec:
        return CrawlSpec(**{name: getattr(self, name) for name in CrawlSpec.model_fields})

    def fingerprint(self) -> bytes:
        """The same for two requests that mean the same."""
        return blake2b(self.model_dump_json().encode(), digest_size=FINGERPRINT_BYTES).digest()


class DryRunRequest(CrawlSpec):
    """A crawl that is not started, and URLs that it would meet."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "contact": "me@example.org",
                "seeds": ["https://example.org/"],
                "urls": ["https://example.org/a?utm_source=x", "https://example.com/"],
            }
        }
    )

    seeds: Seeds = Field(
        default=(), description="without any, the URLs are taken for the seeds themselves"
    )
    urls: tuple[str, ...] = Field(
        min_length=1, max_length=MAX_DRY_RUN_URLS, description="judged as links of a seed"
    )


class DomainOrder(BaseModel):
    """The rule for a domain; an empty object removes it."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"delay_s": 10, "is_blocked": False}}
    )

    delay_s: float | None = Field(
        default=None, ge=0, le=MAX_DELAY_S, description="in place of the crawl's own delay"
    )
    is_blocked: bool = Field(
        default=False, description="fetch nothing from it, for good; its URLs are kept"
    )
    is_paused: bool = Field(default=False, description="fetch nothing from it for a while")

    def changed_in(self, rule: DomainRule) -> DomainRule:
        """The rule with what was said, and the rest as it was."""
        return replace(rule, **self.model_dump(exclude_unset=True))


# Answers


class CrawlStarted(BaseModel):
    """A crawl that the state store has."""

    id: int = Field(examples=[1])
    state: CrawlState
    seeds: int = Field(description="of this request, each once")


class CrawlSummary(BaseModel):
    id: int
    state: CrawlState
    reason: str = Field(description="why it ended, or is about to")
    labels: dict[str, str]
    created_at: datetime
    started_at: datetime | None = Field(description="when all seeds were there")
    ended_at: datetime | None


class CrawlPage(BaseModel):
    crawls: list[CrawlSummary]
    next: str | None = Field(description="Give it as `cursor` for the next page")


class Note(BaseModel):
    at: datetime
    text: str


class DomainRuleView(BaseModel):
    """An operator's rule for a domain."""

    domain: str
    delay_s: float | None
    is_blocked: bool
    is_paused: bool


class HeldView(BaseModel):
    """A domain with URLs of the crawl that is paused or blocked, by its own rule or that of all."""

    domain: str
    queued: int = Field(description="URLs that wait there, of all crawls")
    is_blocked: bool
    is_paused: bool


class PutOffView(BaseModel):
    """A host with URLs of the crawl that is left alone for now."""

    origin: str
    reason: str = Field(examples=["robots.txt: connection refused"])
    queued: int = Field(description="URLs that wait there, of all crawls")
    ready_at: datetime = Field(description="when it is tried again")
    given_up_at: datetime = Field(description="when its URLs fail if it is still in trouble")


class CrawlView(CrawlSummary):
    ends_as: CrawlState | None = Field(description="what a stopping crawl will end as")
    limited_by: str = Field(description="what keeps it from being faster now, or from ending")
    urls: dict[str, int] = Field(description="by their state")
    counters: dict[str, int] = Field(description="of pages, bytes and links")
    left_out: dict[str, int] = Field(
        description="links that were not taken and URLs that came to nothing, by reason; "
        "`/crawls/{crawl}/errors` has those of the failed ones"
    )
    put_off: list[PutOffView] = Field(
        description="hosts that are left alone for now, the first ten to be tried again"
    )
    held: list[HeldView] = Field(
        description="domains that operators have paused or blocked, the first ten by URLs waiting; "
        "the crawl does not end before these are fetched or purged"
    )
    pages_per_s: float | None = Field(
        description="over the last seconds; null unless asked for shortly before"
    )
    mean_pages_per_s: float | None = Field(description="since its start")
    has_all_seeds: bool
    seeds_waiting: int = Field(description="batches of seeds that no worker has taken yet")
    seed_file_lines: int = Field(description="of its seed file, read so far")
    seed_file_refused: int = Field(description="of these, lines that are no URL")
    domain_rules: list[DomainRuleView] = Field(description="of this crawl, the first 100")
    notes: list[Note] = Field(description="what happened to it, the newest first")
    spec: CrawlSpec


class CrawlChange(BaseModel):
    """The crawl after a change of state, and what is still under way."""

    id: int
    state: CrawlState
    ends_as: CrawlState | None
    in_flight: int = Field(description="URLs being fetched or parsed; these are finished")
    queued: int = Field(description="URLs that wait")


class UrlView(BaseModel):
    url: str
    state: str
    depth: int
    status: int = Field(description="of HTTP; 0 without an answer")
    reason: str
    attempts: int
    updated_at: datetime


class UrlPage(BaseModel):
    urls: list[UrlView]
    next: str | None = Field(description="Give it as `cursor` for the next page")


class ErrorView(BaseModel):
    reason: str
    count: int
    sample_url: str
    detail: str = Field(
        description="more of what happened to sample_url: the traceback of a page function"
    )
    first_at: datetime
    last_at: datetime


class ErrorList(BaseModel):
    errors: list[ErrorView] = Field(description="the most frequent first")


class OriginView(BaseModel):
    origin: str
    queued: int
    ready_at: datetime | None = Field(description="null: at any time")
    reason: str = Field(description="why it is left alone until then; empty if it is not")


class DomainView(BaseModel):
    domain: str
    queued: int
    next_at: datetime | None = Field(description="null: at any time")
    delay_s: float | None = Field(description="by the operator, for all crawls")
    is_blocked: bool = Field(description="by the operator, for all crawls")
    is_paused: bool = Field(description="by the operator, for all crawls")
    origins: list[OriginView] = Field(description="the ten with most URLs waiting")


class DomainList(BaseModel):
    domains: list[DomainView] = Field(description="those with most URLs waiting first")
    rules: list[DomainRuleView] = Field(description="for all crawls, the first 100")


class PurgeOrdered(BaseModel):
    domain: str
    shard: int


class PurgeOfAllOrdered(PurgeOrdered):
    crawls: int = Field(description="crawls that have not ended; fetch jobs are dropped, too")


class JudgedUrl(BaseModel):
    url: str = Field(description="as it was given")
    is_in: bool
    reason: str = Field(description="why it is out; empty if it is in")
    canonical: str | None = Field(description="what would be fetched; null for what is no URL")
    fingerprint: str | None = Field(description="URLs with the same one are one page")
    key: str | None
    domain: str | None
    shard: int | None
    queue: str | None
    duplicate_of: int | None = Field(
        description="the place of an earlier one that is the same page"
    )


class DryRunAnswer(BaseModel):
    urls: list[JudgedUrl]
    not_looked_at: str = Field(description="what a real crawl would check besides")
