"""What may differ between Faktory and the broker: the list in docs/BROKER.md, and for each of its
entries how it is recognised. What no entry explains is a fault."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from manyhands.shared.jobs import QUEUE_NAME
from tests.support.twins.commands import PAST, Sequence
from tests.support.twins.servers import as_text

PAGE = Path(__file__).resolve().parents[3] / "docs" / "BROKER.md"
_ENTRY = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)
# How Go begins to say what is wrong with JSON, where it does not say "invalid JSON" first.
_GO_JSON = ("-ERR json: ", "-ERR invalid character ", "-ERR unexpected end of JSON input")
_PRECISE = 2**53
Change = Callable[[Any], Any]


@dataclass(slots=True)
class Difference:
    """Of the answer to the last line of the history, or of the state behind it."""

    kind: str
    theirs: Any
    ours: Any
    history: tuple[str, ...]
    sequence: Sequence

    @property
    def line(self) -> str:
        return self.history[-1]

    @property
    def verb(self) -> str:
        return self.line.partition(" ")[0]

    @property
    def are_errors(self) -> bool:
        return all(isinstance(a, str) and a.startswith("-ERR ") for a in (self.theirs, self.ours))

    def is_gone_if(self, change: Callable[[Any], Any]) -> bool:
        return bool(change(self.theirs) == change(self.ours))

    def __str__(self) -> str:
        if self.kind == "answer":
            return f"Faktory answers {self.theirs!r}\nbroker answers  {self.ours!r}"
        return "\n".join(
            f"{key}: Faktory {json.dumps(value)}\n{key}: broker  {json.dumps(self.ours[key])}"
            for key, value in self.theirs.items()
            if value != self.ours[key]
        )


@cache
def listed() -> set[str]:
    """The ids of the entries of docs/BROKER.md."""
    return set(_ENTRY.findall(PAGE.read_text()))


def excuse(found: Difference) -> list[str]:
    """The entries of the list that say so; none for what no entry explains."""
    names = listed()
    for name, is_it in RULES.items():
        if name in names and is_it(found):
            return [name]
    changes = {
        name: change
        for name, (may_be, change) in CHANGES.items()
        if name in names and may_be(found)
    }
    for name, change in changes.items():
        if found.is_gone_if(change):
            return [name]
    # One job may differ in several ways.
    return list(changes) if found.is_gone_if(_all_of(changes.values())) else []


def _all_of(changes: Iterable[Change]) -> Change:
    def change(value: Any) -> Any:
        for each in changes:
            value = each(value)
        return value

    return change


# How to see that it is this one


def _words_of_json(found: Difference) -> bool:
    if not found.are_errors:
        return False
    if found.verb == "MUTATE":
        return bool(found.theirs.startswith(_GO_JSON))
    return all(said.startswith("-ERR invalid JSON: ") for said in (found.theirs, found.ours))


def _words_of_times(found: Difference) -> bool:
    def cut(said: Any) -> Any:
        if isinstance(said, dict):
            return {name: cut(reason) for name, reason in said.items()}
        return re.sub(r"(invalid timestamp for 'at': \".*?\"): .*", r"\1", str(said))

    return found.kind == "answer" and found.is_gone_if(cut)


def _cut_quotes(found: Difference) -> bool:
    return found.are_errors and len(found.ours) > 100 and found.theirs.startswith(found.ours)


def _half_characters(found: Difference) -> bool:
    return "\\ud800" in found.line


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    is_large = isinstance(value, int) and abs(value) > _PRECISE
    return float(value) if is_large else value


def _letters_of_fields(found: Difference) -> bool:
    return any(f'"{name}":' in line for line in found.history for name in ("JobType", "Retry"))


def _illegal_fetch(found: Difference) -> bool:
    names = [name for name in found.line.split(" ")[1:] if name]
    return found.verb == "FETCH" and not all(map(QUEUE_NAME.fullmatch, names))


def _illegal_schedule(found: Difference) -> bool:
    return found.verb in ("PUSH", "PUSHB") and any(
        job.get("at") and job.get("queue") and not QUEUE_NAME.fullmatch(str(job["queue"]))
        for job in _pushed(found.line)
    )


def _expired(found: Difference) -> bool:
    moments = (PAST, 1.5)
    return found.verb == "FETCH" and any(
        isinstance(job.get("custom"), dict) and job["custom"].get("expires_at") in moments
        for line in found.history
        for job in _pushed(line)
    )


def _repeated(found: Difference) -> bool:
    jids = [job.get("jid") for line in found.history for job in _pushed(line)]
    return found.kind == "state" and len(set(map(str, jids))) < len(jids)


def _has_left_default(found: Difference) -> bool:
    return found.sequence.is_default_left


def _has_requeued(found: Difference) -> bool:
    return any('"requeue"' in line for line in found.history)


def _has_failed(found: Difference) -> bool:
    return any(line.startswith("FAIL ") for line in found.history)


def _is_info(found: Difference) -> bool:
    return found.verb == "INFO"


def _is_any(_found: Difference) -> bool:
    return True


def _order_of_requeue(found: Difference) -> bool:
    """Both gave out a job, not the same one, and both have the same in all."""
    return found.verb == "FETCH" and _has_requeued(found)


def _flushed(found: Difference) -> bool:
    return any(line.startswith("FLUSH") for line in found.history[:-1])


def _pattern(found: Difference) -> bool:
    return found.verb == "MUTATE" and ('"regexp":"' in found.line or "*" in found.line)


def _own_verb(found: Difference) -> bool:
    return found.verb == "HELD" and str(found.theirs) == "-ERR unknown command HELD"


def _without(*names: str) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: change(item) for name, item in value.items() if name not in names}
        if isinstance(value, list):
            return sorted((change(item) for item in value), key=as_text)
        return value

    return change


RULES: dict[str, Callable[[Difference], bool]] = {
    "json-words": _words_of_json,
    "time-words": _words_of_times,
    "quotes-cut": _cut_quotes,
    "half-characters": _half_characters,
    "field-letters": _letters_of_fields,
    "fetch-illegal": _illegal_fetch,
    "scheduled-illegal": _illegal_schedule,
    "expired": _expired,
    "pushed-again": _repeated,
    "requeue-order": _order_of_requeue,
    "flush": _flushed,
    "mutate-pattern": _pattern,
    "held": _own_verb,
}
# The same jobs, but for some values in them: when they may be meant, and what makes them equal.
CHANGES: dict[str, tuple[Callable[[Difference], bool], Change]] = {
    "digits": (_is_any, _rounded),
    "retry-default": (_has_left_default, _without("retry", "remaining")),
    "requeue-time": (_has_requeued, _without("enqueued_at")),
    "failure-cut": (_has_failed, _without("message", "errtype")),
    "own-name": (_is_info, _without("description")),
    "paused": (_is_info, _without("paused")),
}


def _pushed(line: str) -> Iterable[dict[str, Any]]:
    """The jobs in a line that pushes some, as far as it can be read."""
    verb, _, body = line.partition(" ")
    if verb not in ("PUSH", "PUSHB"):
        return []
    try:
        jobs = json.loads(body)
    except ValueError:
        return []
    return [job for job in (jobs if isinstance(jobs, list) else [jobs]) if isinstance(job, dict)]
