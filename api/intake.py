"""From what a client sent to a job that can be pushed: read, check, route, encode. Pure.

Used for every single job, so nothing here is read or encoded twice: the arguments go from the
client's bytes through the model of their type to the bytes that the broker stores.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from pydantic import BaseModel, ValidationError

from manyhands.api.problems import Problem, bad_request, unprocessable
from manyhands.shared.crawl.fetch_jobs import (
    LEAST_UNIQUE_FOR_S,
    MOST_UNIQUE_FOR_S,
    UNIQUE_FOR_S,
)
from manyhands.shared.errors import InvalidJob
from manyhands.shared.jobs import (
    DEFAULT_QUEUE,
    DEFAULT_RESERVE_FOR_S,
    DEFAULT_RETRY,
    MAX_RESERVE_FOR_S,
    MAX_SAFE_INTEGER,
    QUEUE_NAME,
    JobTemplate,
    check_numbers,
    new_jid,
    rfc3339,
)
from manyhands.shared.jobtypes import FETCH, JOB_TYPES

MAX_DELAY_S = 10 * 365 * 86_400
MAX_RETRY = 1000
MAX_JOBTYPE_LENGTH = 200
# Remembered: most jobs of a service differ in their arguments only.
MAX_TEMPLATES = 1024
# Errors reported for one body; a list can have thousands.
MAX_FAULTS = 100
_FIELD = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
# Python reads more than this, and stops at a NUL.
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_PLACE = re.compile(r"\[([0-9]+)\]\.?(.*)")
_MISSING_OR_UNKNOWN = re.compile(r"(?:missing required|unknown) field `([^`]*)`")

Model = TypeVar("Model", bound=BaseModel)
# Type, queue, retry, reserve_for, unique_for_s.
TemplateKey = tuple[str, str, int, int, float | None]


class Options(msgspec.Struct, forbid_unknown_fields=True, rename={"in_": "in"}, gc=False):
    """The options of a job besides its arguments."""

    queue: (
        # Not $, which would let a line end pass.
        Annotated[str, msgspec.Meta(pattern=rf"^{QUEUE_NAME.pattern}\Z", max_length=200)] | None
    ) = None
    at: str | None = None
    in_: Annotated[float, msgspec.Meta(ge=0, le=MAX_DELAY_S)] | None = None
    retry: Annotated[int, msgspec.Meta(ge=-1, le=MAX_RETRY)] | None = None
    reserve_for: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESERVE_FOR_S)] | None = None
    unique_for_s: (
        Annotated[float, msgspec.Meta(ge=LEAST_UNIQUE_FOR_S, le=MOST_UNIQUE_FOR_S)] | None
    ) = None


class Item(Options, kw_only=True, gc=False):
    """One job of a list or of an NDJSON stream."""

    jobtype: str
    args: msgspec.Raw


NO_OPTIONS = Options()
NUMBERS = ("in", "retry", "reserve_for", UNIQUE_FOR_S)
# That of Faktory Enterprise. Without it, no server keeps jobs unique.
THEIR_UNIQUE_FOR = "unique_for"
NOT_UNIQUE = "only fetch jobs can be unique, by the option unique_for_s"
_decode_item = msgspec.json.Decoder(Item).decode
_decode_items = msgspec.json.Decoder(list[Item]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class EncodedJob(msgspec.Struct, gc=False):
    """A job that can be pushed as it is. Made by the thousand, and part of no cycle."""

    jid: str
    jobtype: str
    queue: str
    payload: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.payload)


class Intake:
    """State: the templates of jobs seen before. `keeps_big_integers` depends on the broker."""

    def __init__(
        self, *, shards: int, allows_unknown: bool, keeps_big_integers: Callable[[], bool]
    ) -> None:
        self._shards = shards
        self._allows_unknown = allows_unknown
        self._keeps_big_integers = keeps_big_integers
        self._templates: dict[TemplateKey, JobTemplate] = {}
        self._now: datetime | None = None
        self._now_text = b""

    def job(self, jobtype: str, args: bytes, options: Options, now: datetime) -> EncodedJob:
        """One job of its type and the JSON object of its arguments. Raises Problem."""
        kind = JOB_TYPES.get(jobtype)
        if kind is not None:
            arguments = checked(kind.arguments, args, "args")
            queue = options.queue or kind.queue_of(arguments, self._shards)
            values = arguments.to_list()
            retry, reserve_for_s = kind.retry, kind.reserve_for_s
        else:
            values = [self._unknown_arguments(jobtype, args)]
            queue = options.queue or DEFAULT_QUEUE
            retry, reserve_for_s = DEFAULT_RETRY, DEFAULT_RESERVE_FOR_S
        if not _are_plain(values):
            self._check_numbers(values)
        if options.retry is not None:
            retry = options.retry
        if options.unique_for_s is not None and jobtype != FETCH:
            raise unprocessable(NOT_UNIQUE, field=UNIQUE_FOR_S)
        reserve_for_s = options.reserve_for or reserve_for_s
        key = (jobtype, queue, retry, reserve_for_s, options.unique_for_s)
        template = self._templates.get(key) or self._new_template(key)
        created_at = self._now_text if now is self._now else self._text_of(now)
        is_due_now = options.at is None and options.in_ is None
        jid = new_jid()
        payload = template.encode(
            jid, _encode(values), created_at, b"" if is_due_now else _due(options, now)
        )
        return EncodedJob(jid, jobtype, queue, payload)

    def line(self, line: bytes, now: datetime) -> EncodedJob:
        """A line of NDJSON: a job that carries its type and options. Raises Problem."""
        return self.item(decode(_decode_item, line), now)

    def item(self, item: Item, now: datetime) -> EncodedJob:
        """Raises Problem."""
        return self.job(item.jobtype, bytes(item.args), item, now)

    def url(self, line: bytes, options: Options, now: datetime) -> EncodedJob:
        """A line of plain text: a page to fetch. Raises Problem."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise bad_request("the line is not UTF-8") from None
        return self.job(FETCH, _encode({"url": text}), options, now)

    def _unknown_arguments(self, jobtype: str, args: bytes) -> dict[str, Any]:
        if not self._allows_unknown:
            known = ", ".join(sorted(JOB_TYPES))
            raise Problem(
                404, f"no job type {jobtype[:100]!r}: use one of {known}", {"field": "jobtype"}
            )
        if not jobtype or len(jobtype) > MAX_JOBTYPE_LENGTH or not jobtype.isprintable():
            raise unprocessable("not the name of a job type", field="jobtype")
        try:
            arguments: dict[str, Any] = decode(_decode_object, args)
        except Problem as problem:
            raise Problem(problem.status, problem.detail, {"field": "args"}) from None
        return arguments

    def _check_numbers(self, values: list[Any]) -> None:
        try:
            try:
                check_numbers(values, "args", MAX_SAFE_INTEGER)
            except InvalidJob:
                if not self._keeps_big_integers():
                    raise
                check_numbers(values, "args", None)
        except InvalidJob as error:
            raise unprocessable(str(error), field="args") from None

    def _text_of(self, now: datetime) -> bytes:
        """Kept: the jobs of a stream share their moment by the thousand."""
        self._now, self._now_text = now, rfc3339(now).encode()
        return self._now_text

    def _new_template(self, key: TemplateKey) -> JobTemplate:
        if len(self._templates) >= MAX_TEMPLATES:
            self._templates.clear()
        jobtype, queue, retry, reserve_for_s, unique_for_s = key
        custom = {} if unique_for_s is None else {UNIQUE_FOR_S: unique_for_s}
        template = JobTemplate(jobtype, queue, retry, reserve_for_s, custom)
        self._templates[key] = template
        return template


def _are_plain(values: list[Any]) -> bool:
    """What every server carries; most arguments are."""
    for value in values:  # a call for each would cost more than the look
        kind = type(value)
        if kind is str or (kind is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER):
            continue
        return False
    return True


def split_list(body: bytes) -> list[Item]:
    """The jobs of a JSON list; their arguments are still unread. Raises Problem for the first
    invalid one: a list of a million errors must not fill the memory."""
    try:
        items: list[Item] = decode(_decode_items, body)
    except Problem as problem:
        place = _PLACE.fullmatch(str(problem.more.get("field", "")))
        if place is not None:
            more = {"field": place[2]} if place[2] else {}
            raise unprocessable(
                f"job {place[1]} of the list: {problem.detail}", index=int(place[1]), **more
            ) from None
        hint = "expected a JSON list; for NDJSON set Content-Type: application/x-ndjson"
        raise Problem(problem.status, f"{problem.detail} ({hint})") from None
    return items


def query_options(query: bytes) -> Options:
    """Options of a single job, e.g. `?queue=slow&in=60`."""
    if not query:
        return NO_OPTIONS
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise bad_request("the query is not URL-encoded text") from None
    named = dict(pairs)
    if len(named) < len(pairs):
        raise bad_request("an option is given twice")
    for name in NUMBERS:
        if named.get(name) == "null":  # which would be read as not given
            raise unprocessable("not a number", field=name)
    try:
        return msgspec.convert(named, Options, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def decode(decoder: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return decoder(data)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"not JSON: {error}") from None
    except RecursionError:
        raise bad_request("the JSON is nested too deeply") from None


def _invalid(error: msgspec.ValidationError) -> Problem:
    text = str(error)
    at = _FIELD.search(text)
    named = _MISSING_OR_UNKNOWN.search(text)
    field = ".".join(found[1] for found in (at, named) if found and found[1])
    detail = text[: at.start()] if at else text
    if named and named[1] == THEIR_UNIQUE_FOR:
        detail = f"{detail}: {NOT_UNIQUE}"
    return unprocessable(detail, **({"field": field} if field else {}))


def checked(model: type[Model], data: bytes, where: str) -> Model:
    """Read JSON as a model, converting nothing; `where` names the data for its sender. Raises
    Problem."""
    try:
        # As model_validate_json, which takes as long again to pass on what it is not given.
        found: Model = model.__pydantic_validator__.validate_json(data, strict=True)
        return found
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        raise bad_request(f"not JSON: {problems[0]['msg'].removeprefix('Invalid JSON: ')}")
    errors = [
        {
            "field": ".".join([where, *map(str, problem["loc"])]),
            "detail": problem["msg"].removeprefix("Value error, "),
        }
        for problem in problems[:MAX_FAULTS]
    ]
    raise unprocessable(
        f"{errors[0]['field']}: {errors[0]['detail']}", field=errors[0]["field"], errors=errors
    )


def _due(options: Options, now: datetime) -> bytes:
    if options.at is not None and options.in_ is not None:
        raise unprocessable("give either at or in, not both", field="at")
    if options.in_ is not None:
        return rfc3339(now + timedelta(seconds=options.in_)).encode()
    if options.at is None:
        return b""
    if not _RFC3339.fullmatch(options.at):
        raise _no_time("at is not a time")
    try:
        at = datetime.fromisoformat(options.at)
        if at.tzinfo is None:
            raise _no_time("at has no time zone")
        return rfc3339(at.astimezone(UTC)).encode()
    except (ValueError, OverflowError):
        raise _no_time("there is no such time") from None


def _no_time(why: str) -> Problem:
    return unprocessable(f"{why}: use RFC 3339, e.g. 2030-01-31T12:00:00Z", field="at")
