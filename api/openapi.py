"""The OpenAPI of routes that read their bodies themselves, and of what every route may answer.

Each job type has its own path: a document for `{type}` could not say which arguments go with which
type.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from manyhands.api.crawls.model import CrawlRequest, DomainOrder, DryRunRequest
from manyhands.api.intake import MAX_DELAY_S, MAX_JOBTYPE_LENGTH, MAX_RETRY
from manyhands.api.many import MAX_LIST_JOBS
from manyhands.api.openapi_bodies import REF, lines, ref
from manyhands.api.routes import Accepted, AcceptedLines, AcceptedList, Which
from manyhands.shared.crawl.fetch_jobs import (
    LEAST_UNIQUE_FOR_S,
    MOST_UNIQUE_FOR_S,
    UNIQUE_FOR_S,
)
from manyhands.shared.http.problems import MEDIA_TYPE
from manyhands.shared.jobs import MAX_RESERVE_FOR_S, QUEUE_NAME
from manyhands.shared.jobtypes import FETCH, JOB_TYPES, JobType

LINE_RANGES: dict[str, Any] = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    "description": "First and last line of each run of lines",
}
PROBLEM = {
    "type": "object",
    "description": "RFC 9457. A problem may have further members",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "What is wrong in the request"},
        "errors": {"type": "array", "description": "Several faults, with the field of each, and "
                   "the index or line of its job", "items": {"type": "object"}},
        "state": {"type": "string", "description": "The crawl's state"},
        "outcome": {"const": "unknown", "description": "The job may be queued, or not"},
        "accepted": {"type": "integer", "description": "Jobs of the stream that are queued"},
        "refused": {"type": "integer", "description": "Lines of the stream that are not jobs"},
        "unknown_lines": LINE_RANGES,
        "unqueued_lines": LINE_RANGES,
        "next_line": {"type": "integer", "description": "From this line on nothing was read"},
    },
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "queue": {"type": "string", "pattern": f"^{QUEUE_NAME.pattern}$", "maxLength": 200},
    "at": {"type": "string", "format": "date-time", "description": "Not before this time"},
    "in": {
        "type": "number",
        "minimum": 0,
        "maximum": MAX_DELAY_S,
        "description": "Seconds to wait before it may run; not together with `at`",
    },
    "retry": {"type": "integer", "minimum": -1, "maximum": MAX_RETRY},
    "reserve_for": {"type": "integer", "minimum": 1, "maximum": MAX_RESERVE_FOR_S},
}
OPTIONS_OF_FETCH: dict[str, dict[str, Any]] = OPTIONS | {
    UNIQUE_FOR_S: {
        "type": "number",
        "minimum": LEAST_UNIQUE_FOR_S,
        "maximum": MOST_UNIQUE_FOR_S,
        "description": "Seconds; not fetched if another job of the URL with this option was taken "
        "in by a worker within the shorter time of both",
    },
}
ERRORS = {
    400: "Not JSON, or not what it says it is",
    401: "An API key is needed",
    403: "The key lacks the scope, or a page of another origin asks",
    404: "Not found",
    405: "The name of a job type, which takes a POST",
    408: "The body did not come",
    409: "The crawl has ended or is ending, and `state` says how; or RESULTS names no sink that "
    "can be read back",
    413: "Too large",
    415: "An unknown encoding",
    422: "Invalid; `field` says where",
    429: "Too fast; `Retry-After` says when to try again",
    501: "This broker cannot do it, or CRAWL_STATE is not set",
    502: "The broker refused, or its HTTP side does not answer",
    503: "The broker is away, or the state of the crawls cannot be used. With `outcome: unknown` "
    "it may have been done, or not",
}
OPEN: tuple[int, ...] = (403, 422)
READING = (401, 403, 422, 502, 503)
LISTING = (*READING, 404, 501)
CHANGING = READING
TAKING = (400, 401, 403, 408, 413, 415, 422, 429, 503)
OF_CRAWLS = (401, 403, 422, 501, 503)
OF_A_CRAWL = (*OF_CRAWLS, 404)
CHANGING_CRAWL = (*OF_A_CRAWL, 409)
READING_RESULTS = (*OF_A_CRAWL, 409, 429)
READING_BODY = (400, 408, 413, 415, 429)
# What each operation may answer besides success.
ANSWERS: dict[tuple[str, str], tuple[int, ...]] = {
    ("/jobs", "post"): TAKING,
    ("/jobs/{name}", "get"): (*LISTING, 405),
    ("/jobs/{name}", "post"): TAKING,
    ("/queues", "get"): READING,
    ("/queues/{name}/{action}", "post"): CHANGING,
    ("/sets/{name}", "get"): LISTING,
    ("/sets/{name}/{action}", "post"): (*CHANGING, 400, 408, 413),
    ("/stats", "get"): READING,
    ("/crawls", "post"): (*OF_CRAWLS, *READING_BODY),
    ("/crawls", "get"): OF_CRAWLS,
    ("/crawls/dry-run", "post"): (*OF_CRAWLS, *READING_BODY),
    ("/crawls/{crawl}", "get"): OF_A_CRAWL,
    ("/crawls/{crawl}/urls", "get"): OF_A_CRAWL,
    ("/crawls/{crawl}/errors", "get"): OF_A_CRAWL,
    ("/crawls/{crawl}/pages", "get"): READING_RESULTS,
    ("/crawls/{crawl}/links", "get"): READING_RESULTS,
    ("/crawls/{crawl}/seeds", "post"): (*CHANGING_CRAWL, *READING_BODY),
    ("/crawls/{crawl}/pause", "post"): CHANGING_CRAWL,
    ("/crawls/{crawl}/resume", "post"): CHANGING_CRAWL,
    ("/crawls/{crawl}/cancel", "post"): CHANGING_CRAWL,
    ("/crawls/{crawl}/domains/{domain}", "put"): (*CHANGING_CRAWL, *READING_BODY),
    ("/crawls/{crawl}/domains/{domain}", "patch"): (*CHANGING_CRAWL, *READING_BODY),
    ("/crawls/{crawl}/domains/{domain}/queued", "delete"): CHANGING_CRAWL,
    ("/domains/{domain}", "put"): (*OF_CRAWLS, 404, *READING_BODY),
    ("/domains/{domain}", "patch"): (*OF_CRAWLS, 404, *READING_BODY),
    ("/domains/{domain}/queued", "delete"): (*OF_CRAWLS, 404),
    ("/domains", "get"): OF_CRAWLS,
    ("/healthz", "get"): OPEN,
    ("/readyz", "get"): (*OPEN, 503),
    ("/version", "get"): OPEN,
    ("/metrics", "get"): (401, 403, 422),
} | {(f"/jobs/{name}", "post"): TAKING for name in JOB_TYPES}


def complete(schema: dict[str, Any], *, allows_unknown: bool, needs_key: bool) -> dict[str, Any]:
    """Add what FastAPI cannot know."""
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    schemas |= _schemas([kind.arguments for kind in JOB_TYPES.values()], "validation")
    schemas |= _schemas([CrawlRequest, DryRunRequest, DomainOrder, Which], "validation")
    schemas |= _schemas([Accepted, AcceptedList, AcceptedLines], "serialization")
    schemas |= {"Problem": PROBLEM, "JobItem": _job_item(allows_unknown)}
    for model in ("HTTPValidationError", "ValidationError"):
        schemas.pop(model, None)
    schema["components"]["securitySchemes"] = {
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        "bearer": {"type": "http", "scheme": "bearer"},
    }
    schema["security"] = [{"key": []}, {"bearer": []}] if needs_key else []
    paths = schema["paths"]
    paths["/jobs"] = {"post": _many_jobs()}
    for kind in JOB_TYPES.values():
        paths[f"/jobs/{kind.name}"] = {"post": _single_job(kind)}
    if allows_unknown:
        paths["/jobs/{name}"]["post"] = _unknown_job()
    for path, operations in paths.items():
        for method, operation in operations.items():
            _describe_errors(operation, ANSWERS[path, method])
    return schema


def _schemas(models: Iterable[type[BaseModel]], mode: JsonSchemaMode) -> dict[str, Any]:
    _, found = models_json_schema([(model, mode) for model in models], ref_template=REF)
    definitions: dict[str, Any] = found["$defs"]
    return definitions


def _describe_errors(operation: dict[str, Any], statuses: tuple[int, ...]) -> None:
    operation["responses"].pop("422", None)
    operation["responses"] |= {str(status): _problem(status) for status in sorted(statuses)}
    if 401 not in statuses:
        operation["security"] = []


def _problem(status: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": ERRORS[status],
        "content": {MEDIA_TYPE: {"schema": ref("Problem")}},
    }
    if status in (429, 503):
        shape = {"schema": {"type": "integer"}, "description": "Seconds"}
        answer["headers"] = {"Retry-After": shape}
    return answer


def _job_item(allows_unknown: bool) -> dict[str, Any]:
    items = [
        _item({"const": kind.name}, ref(kind.arguments.__name__), _options_of(kind.name))
        for kind in JOB_TYPES.values()
    ]
    if allows_unknown:
        name = {"type": "string", "minLength": 1, "maxLength": MAX_JOBTYPE_LENGTH}
        name |= {"not": {"enum": sorted(JOB_TYPES)}}
        items.append(_item(name, {"type": "object"}, OPTIONS))
    return {
        "oneOf": items,
        "not": {
            "description": "At a time, and after a delay",
            "properties": {"at": {"type": "string"}, "in": {"type": "number"}},
            "required": ["at", "in"],
        },
        "example": {"jobtype": "add", "args": {"a": 1, "b": 2}, "in": 60},
    }


def _options_of(jobtype: str) -> dict[str, dict[str, Any]]:
    return OPTIONS_OF_FETCH if jobtype == FETCH else OPTIONS


def _item(
    jobtype: dict[str, Any], arguments: dict[str, Any], options: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    options = {name: {**shape, "type": [shape["type"], "null"]} for name, shape in options.items()}
    return {
        "type": "object",
        "required": ["jobtype", "args"],
        "additionalProperties": False,
        "properties": {"jobtype": jobtype, "args": arguments} | options,
    }


def _single_job(kind: JobType) -> dict[str, Any]:
    return {
        "summary": f"Queue one `{kind.name}` job",
        "operationId": f"take_{kind.name}_job",
        **_one_job(ref(kind.arguments.__name__), _options_of(kind.name)),
    }


def _unknown_job() -> dict[str, Any]:
    return {
        "summary": "Queue one job of a type that has no model here",
        "operationId": "take_job",
        **_one_job({"type": "object"}, OPTIONS),
        "parameters": [
            {
                "name": "name",
                "in": "path",
                "required": True,
                "description": "The job's type",
                "schema": {"type": "string", "minLength": 1, "maxLength": MAX_JOBTYPE_LENGTH},
            },
            *_in_query(OPTIONS),
        ],
    }


def _one_job(arguments: dict[str, Any], options: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "tags": ["jobs"],
        "description": "The body is the JSON object of the job's arguments, whatever its content "
        "type says. The answer comes when the broker has the job.",
        "parameters": _in_query(options),
        "requestBody": {"required": True, "content": {"application/json": {"schema": arguments}}},
        "responses": {
            "202": {
                "description": "The broker has it",
                "headers": {"Location": {"schema": {"type": "string"}}},
                "content": {"application/json": {"schema": ref("Accepted")}},
            }
        },
    }


def _in_query(options: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": shape} for name, shape in options.items()]


def _many_jobs() -> dict[str, Any]:
    either = {"anyOf": [ref("AcceptedList"), ref("AcceptedLines")]}
    return {
        "tags": ["jobs"],
        "summary": "Queue many jobs",
        "description": f"A JSON list has at most {MAX_LIST_JOBS:,} jobs; if one of them is "
        "invalid, none is queued. NDJSON (a job per line) and plain text (a URL per line) may have "
        "any length; each line is taken or refused by itself, and the answer names the refused "
        "ones. All three may be packed (Content-Encoding: gzip or zstd). Each job carries its "
        "options; those of plain text are in the query.",
        "operationId": "take_jobs",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "array",
                        "maxItems": MAX_LIST_JOBS,
                        "items": ref("JobItem"),
                    }
                },
                **lines('{"jobtype": "add", "args": {"a": 1, "b": 2}}'),
            },
        },
        "responses": {
            "202": {
                "description": "The broker has them",
                "content": {"application/json": {"schema": either}},
            }
        },
    }
