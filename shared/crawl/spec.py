"""What a request for a crawl may say, and its defaults. Pure."""

import re
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from manyhands.shared.crawl.discovery import DOCUMENTS, Source
from manyhands.shared.crawl.page_fields import CHOICES, DEFAULT_NAME, UnknownField, chosen

MAX_PATTERN_LENGTH = 500
MAX_PATTERNS = 1000
MAX_NAMES = 10_000
MAX_LABELS = 32
DEFAULT_DEPTH = 20
# The largest integer that every JSON parser and every store keeps exactly.
MAX_COUNT = 2**53 - 1
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
# Files are names within the operator's directory, never paths.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_MODULE = re.compile(r"[A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,99}){0,9}", re.ASCII)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ScopeSpec(Part):
    """Which links are followed. A URL is in scope if it is `within`, or on one of `hosts` or
    `domains`, and matches one of `include` (if there are any) and none of `exclude`."""

    within: Literal["hosts", "domains", "seeds", "listed", "anywhere"] = Field(
        default="hosts",
        description="hosts: those of the seeds; domains: the registrable domains of the seeds; "
        "seeds: the seeds alone, no link is followed; listed: only `hosts` and `domains`; "
        "anywhere: the whole web",
    )
    hosts: tuple[str, ...] = Field(default=(), max_length=MAX_NAMES)
    domains: tuple[str, ...] = Field(
        default=(), max_length=MAX_NAMES, description="with all hosts below them"
    )
    include: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_PATTERNS,
        description="patterns of whole URLs, * stands for any characters",
    )
    exclude: tuple[str, ...] = Field(default=(), max_length=MAX_PATTERNS)
    max_depth: int = Field(default=DEFAULT_DEPTH, ge=0, le=1000, description="links from a seed")
    skips_files: bool = Field(
        default=False,
        description="leave out URLs that are named like a file (.pdf, .jpg) without a request; "
        "else they are asked for, and only a page is read beyond its headers",
    )

    @field_validator("include", "exclude")
    @classmethod
    def _are_short(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if not 1 <= len(pattern) <= MAX_PATTERN_LENGTH:
                raise ValueError(f"a pattern has 1 to {MAX_PATTERN_LENGTH} characters")
        return patterns


class LimitSpec(Part):
    """Limits at which a crawl ends early. None is no limit."""

    pages: int | None = Field(
        default=None, ge=1, le=MAX_COUNT, description="pages fetched, redirects apart"
    )
    bytes: int | None = Field(
        default=None, ge=1, le=MAX_COUNT, description="of bodies, decompressed"
    )
    duration_s: float | None = Field(default=None, gt=0, description="pauses included")
    pages_per_host: int | None = Field(
        default=None, ge=1, le=MAX_COUNT, description="URLs taken of one host"
    )


class PolitenessSpec(Part):
    """How the crawl treats each registrable domain."""

    delay_s: float = Field(
        default=1.0, ge=0, le=3600, description="from the end of one answer to the next request"
    )
    connections_per_host: int = Field(default=1, ge=1, le=32)
    crawl_delay_cap_s: float = Field(
        default=30.0, ge=0, le=3600, description="the longest Crawl-delay that is waited for"
    )
    over_cap: Literal["clamp", "skip"] = Field(
        default="clamp", description="a longer Crawl-delay is shortened, or its host is skipped"
    )
    obeys_nofollow: bool = True
    patience_s: float | None = Field(
        default=None,
        ge=0,
        le=30 * 86_400,
        description="how long to keep trying a host that is unreachable or asks to be left "
        "alone; null: CRAWL_LIMITED_PATIENCE_S with a limit, else CRAWL_PATIENCE_S",
    )


class DiscoverySpec(Part):
    """Where URLs come from besides <a> and <area>. The scope and all limits hold for them, too."""

    link_elements: bool = Field(
        default=True, description="<link rel=next, prev or canonical>, and alternate with hreflang"
    )
    frames: bool = Field(default=True, description="<frame> and <iframe>")
    refresh: bool = Field(
        default=True, description='<meta http-equiv="refresh"> and the header Refresh'
    )
    feeds: bool = Field(default=True, description="the entries of RSS and Atom")
    sitemaps: Literal["none", "robots", "always"] = Field(
        default="robots",
        description="none; robots: those that a robots.txt names; always: /sitemap.xml of each "
        "other host, too",
    )

    @cached_property
    def follows(self) -> tuple[str, ...]:
        """The names of those that are on."""
        return tuple(
            str(source) for source in Source if getattr(self, source) not in (False, "none")
        )

    @cached_property
    def documents(self) -> frozenset[str]:
        """Those of them that are read besides pages."""
        return DOCUMENTS.intersection(self.follows)


class RecordSpec(Part):
    """What the records of the crawl's pages hold."""

    fields: tuple[str, ...] = Field(
        default=(DEFAULT_NAME,),
        min_length=1,
        max_length=len(CHOICES) + 1,
        description=f"{DEFAULT_NAME}, or names from: {', '.join(CHOICES)}. Others are null, and "
        "cost nothing; links are followed whether they are recorded or not",
        examples=[["links"], [DEFAULT_NAME, "markdown"]],
    )

    @field_validator("fields")
    @classmethod
    def _are_known(cls, fields: tuple[str, ...]) -> tuple[str, ...]:
        try:
            chosen(fields)
        except UnknownField as error:
            raise ValueError(str(error)) from None
        return fields


class CrawlSpec(Part):
    """A crawl, without its seeds."""

    contact: str = Field(
        description="contact e-mail address for the crawl; sent in the user agent",
        examples=["me@example.org"],
    )
    scope: ScopeSpec = ScopeSpec()
    limits: LimitSpec = LimitSpec()
    politeness: PolitenessSpec = PolitenessSpec()
    discovery: DiscoverySpec = DiscoverySpec()
    records: RecordSpec = RecordSpec()
    handlers: str | None = Field(
        default=None,
        description="a module of @page functions that get the crawl's pages: one that the workers "
        "have in WORKER_HANDLERS; others are never loaded, and fail the crawl's pages",
        examples=["quotes"],
    )
    seed_file: str | None = Field(
        default=None, description="name of a file in CRAWL_FILES, one URL a line"
    )
    exclusions_file: str | None = Field(
        default=None, description="name of a file in CRAWL_FILES: domains, hosts or patterns"
    )
    labels: dict[str, str] = Field(default={}, max_length=MAX_LABELS)

    @field_validator("contact")
    @classmethod
    def _is_an_address(cls, contact: str) -> str:
        if not _EMAIL.fullmatch(contact):
            raise ValueError("an e-mail address is wanted, such as me@example.org")
        return contact

    @field_validator("handlers")
    @classmethod
    def _is_a_module(cls, name: str | None) -> str | None:
        if name is not None and not _MODULE.fullmatch(name):
            raise ValueError("the name of a module is wanted, such as quotes or shop.pages")
        return name

    @field_validator("seed_file", "exclusions_file")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        if name is not None and not _FILE_NAME.fullmatch(name):
            raise ValueError("the name of a file in CRAWL_FILES is wanted, without a path")
        return name
