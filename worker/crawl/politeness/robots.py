"""What a robots.txt means to us, by RFC 9309. Pure: `robots_cache` fetches and keeps them.

Which lines are ours is decided here, how a line matches a URL by protego. protego would also take
"User-agent: many" for us and "User-agent: Manyhands/1.0" for somebody else, and keep the rules of
everybody in memory.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from protego import Protego

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.shared.errors import ConfigError
from manyhands.worker.net.fetcher import Answer, parse_retry_after

# By which a robots.txt may speak of us: letters, hyphens and underscores only.
PRODUCT_TOKEN = "Manyhands"

# The kinds of a StoredRobots. RULES has the body; UNREACHABLE has the reason in its place.
RULES = "rules"
ALLOW_ALL = "allow_all"
UNREACHABLE = "unreachable"

MAX_BYTES = 500 * 1024
LONGEST_CACHE_S = 86_400.0
# "no-cache" must not become a fetch for every page.
SHORTEST_CACHE_S = 60.0
# How old a copy may be used, and how long an unreachable robots.txt forbids everything.
PATIENCE_S = 30 * 86_400.0
# Longer than any URL we request, even if all of it is percent-encoded.
LONGEST_LINE = 16_384
# Each is matched against every URL of the site. No honest site has more; one that does is left
# alone.
MOST_WILDCARD_RULES = 2000

# Measured with protego 0.7: an empty parser, a rule, and what one with * or $ has besides.
_PARSER_BYTES = 1000
_RULE_BYTES = 300
_WILDCARD_BYTES = 1000
_ENTRY_BYTES = 300

_TOKEN = re.compile(r"[A-Za-z_-]+")
_AGENT = re.compile(r"user[- ]?agent(?:\s*:\s*|\s+)(.*)", re.IGNORECASE)
# protego's list of spellings.
_RULE = re.compile(
    r"(?:allow|disallow|dissallow|dissalow|disalow|diasllow|disallaw|crawl[- ]delay)[\s:].*",
    re.IGNORECASE,
)
_SITEMAP = re.compile(r"site-?map\s*:\s*(\S+)", re.IGNORECASE)


@dataclass(slots=True, frozen=True)
class RobotsRules:
    """What an origin allows us, until `expires_at`."""

    kind: str
    expires_at: float
    # Why nothing is allowed, for people; empty when the site says so itself.
    reason: str = ""
    crawl_delay_s: float | None = None
    # In memory, roughly.
    size_bytes: int = _ENTRY_BYTES
    parser: Protego | None = None
    forbids_all: bool = False
    # As they stand there, for whatever robot.
    sitemaps: tuple[str, ...] = ()

    @property
    def is_unreachable(self) -> bool:
        """Nothing may be fetched before `expires_at`; then the robots.txt is tried again."""
        return self.kind == UNREACHABLE

    def allows(self, url: str) -> bool:
        if self.parser is None:
            return not self.forbids_all
        return self.parser.can_fetch(url, PRODUCT_TOKEN)


def check_user_agent(user_agent: str) -> None:
    """A site must be able to name in its robots.txt the user agent it sees in its logs."""
    if PRODUCT_TOKEN.lower() not in user_agent.lower():
        raise ConfigError(
            f"the user agent must contain {PRODUCT_TOKEN}, the name that robots.txt files are "
            "searched for"
        )


def rules_of(stored: StoredRobots) -> RobotsRules:
    """Takes up to a second for the largest."""
    if stored.kind == UNREACHABLE:
        reason = stored.body.decode("utf-8", "replace")
        return RobotsRules(UNREACHABLE, stored.expires_at, reason, forbids_all=True)
    text = _text(stored.body) if stored.kind == RULES else ""
    lines, sitemaps = _lines_for_us(text), _sitemaps(text)
    if not lines:
        size = _ENTRY_BYTES + sum(map(len, sitemaps))
        return RobotsRules(stored.kind, stored.expires_at, size_bytes=size, sitemaps=sitemaps)
    if sum("*" in line for line in lines) > MOST_WILDCARD_RULES:
        reason = f"more than {MOST_WILDCARD_RULES} rules with wildcards"
        return RobotsRules(RULES, stored.expires_at, reason, forbids_all=True)
    parser = Protego.parse("\n".join(["User-agent: *", *lines]))
    wildcards = sum("*" in line or "$" in line for line in lines)
    size = _PARSER_BYTES + _RULE_BYTES * len(lines) + _WILDCARD_BYTES * wildcards
    return RobotsRules(
        RULES,
        stored.expires_at,
        crawl_delay_s=parser.crawl_delay(PRODUCT_TOKEN),
        size_bytes=_ENTRY_BYTES + size + sum(map(len, (*lines, *sitemaps))),
        parser=parser,
        sitemaps=sitemaps,
    )


def judge(answer: Answer, now: float) -> StoredRobots:
    """The meaning of a final answer.

    A 4xx is "unavailable": there are no rules, everything is allowed. That holds for 401 and 403,
    too: RFC 9309 makes no difference, and a site that forbids its robots.txt forbids its pages as
    well if it means it. 429 alone is no word about the file, but about us: unreachable, like 5xx.
    A redirect that cannot be followed is as good as a 404."""
    if answer.status == 429 or not 200 <= answer.status < 500:
        asked_s = parse_retry_after(answer.retry_after, datetime.fromtimestamp(now, UTC))
        return unreachable(f"status {answer.status}", now, now + (asked_s or 0.0))
    if answer.status >= 300:
        return unavailable(now, lifetime_s(answer.cache_control))
    body = _cut(answer.body, answer.is_truncated)
    return StoredRobots(RULES, body, now, now + lifetime_s(answer.cache_control))


def unavailable(now: float, lifetime_s: float) -> StoredRobots:
    return StoredRobots(ALLOW_ALL, b"", now, now + lifetime_s)


def unreachable(reason: str, now: float, retry_at: float) -> StoredRobots:
    return StoredRobots(UNREACHABLE, reason.encode(), now, retry_at)


def after_failure(
    failed: StoredRobots,
    previous: StoredRobots | None,
    *,
    failing_since: float,
    now: float,
    retry_at: float,
) -> StoredRobots:
    """What applies until `retry_at` when the robots.txt was unreachable again: after 30 days, no
    rules; before that, the last copy if it is at most 30 days old; otherwise nothing is allowed. A
    robots.txt that was missing is no copy."""
    if now - failing_since >= PATIENCE_S:
        return unavailable(now, retry_at - now)
    if previous is not None and previous.kind == RULES and now - previous.fetched_at <= PATIENCE_S:
        return replace(previous, expires_at=retry_at)
    return replace(failed, expires_at=retry_at)


def lifetime_s(cache_control: str) -> float:
    """How long an answer may be kept: a day, or less if its Cache-Control says so."""
    parts = (part.partition("=") for part in cache_control.lower().split(","))
    asked = {name.strip(): value.strip(' "') for name, _, value in parts}
    if "no-cache" in asked or "no-store" in asked:
        return SHORTEST_CACHE_S
    max_age = asked.get("max-age", "")
    if not (max_age.isascii() and max_age.isdecimal()) or len(max_age) > 9:
        return LONGEST_CACHE_S
    return min(max(float(max_age), SHORTEST_CACHE_S), LONGEST_CACHE_S)


def _cut(body: bytes, is_truncated: bool) -> bytes:
    """At the last whole line: half a "Disallow: /private/" could forbid everything."""
    if len(body) <= MAX_BYTES and not is_truncated:
        return body
    body = body[:MAX_BYTES]
    return body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]


def _text(body: bytes) -> str:
    """UTF-8 by the RFC; anything else must do no harm."""
    is_wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return body.decode("utf-16" if is_wide else "utf-8-sig", "replace").replace("\0", "")


def _lines_for_us(text: str) -> list[str]:
    """The rules of the groups that name us, or of those for everybody if none does."""
    ours: list[str] = []
    everybody: list[str] = []
    is_named = False
    for agents, rules in _groups(_lines(text)):
        if PRODUCT_TOKEN.lower() in agents:
            is_named = True
            ours += rules
        if "*" in agents:
            everybody += rules
    return ours if is_named else everybody


def _sitemaps(text: str) -> tuple[str, ...]:
    """Of no group, wherever they stand, each once."""
    found = (_SITEMAP.fullmatch(line) for line in _lines(text))
    return tuple(dict.fromkeys(match[1] for match in found if match is not None))


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if len(line) <= LONGEST_LINE:
            yield line.partition("#")[0].strip()


def _groups(lines: Iterable[str]) -> Iterator[tuple[set[str], list[str]]]:
    """User-agent lines and the rules that follow. Other lines do not end a group."""
    agents: set[str] = set()
    rules: list[str] = []
    for line in lines:
        agent = _AGENT.fullmatch(line)
        if agent is not None:
            if rules:
                yield agents, rules
                agents, rules = set(), []
            agents.add(_product_token(agent[1]))
        elif agents and _RULE.fullmatch(line):
            rules.append(line)
    yield agents, rules


def _product_token(agent: str) -> str:
    """In lower case, without a version; "*" for everybody."""
    if agent.startswith("*"):
        return "*"
    token = _TOKEN.match(agent)
    return "" if token is None else token[0].lower()
