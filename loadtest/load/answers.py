"""What an answer of the API says of each job of its request. Pure."""

import json
from http import HTTPStatus
from typing import Any

from loadtest.load.ledger import Outcome

STATES = {"queued": Outcome.QUEUED, "not queued": Outcome.REFUSED, "unknown": Outcome.UNKNOWN}


def told_of_single(status: int, body: bytes) -> list[Outcome]:
    return [_told_of_all(status, _document(body))]


def told_of_list(jobs: int, status: int, body: bytes) -> list[Outcome]:
    """A list is taken whole, or refused whole, or each job's state is told."""
    document = _document(body)
    if status == HTTPStatus.ACCEPTED and document.get("accepted") != jobs:
        return [Outcome.BROKEN] * jobs
    states = document.get("jobs")
    if status == HTTPStatus.ACCEPTED or not isinstance(states, list):
        return [_told_of_all(status, document)] * jobs
    told = [STATES.get(state.get("state"), Outcome.BROKEN) for state in states]
    return told if len(told) == jobs else [Outcome.BROKEN] * jobs


def told_of_lines(lines: int, status: int, body: bytes) -> list[Outcome]:
    """Of a stream each line stands for itself: the exceptions are told by line, from 1."""
    document = _document(body)
    is_partial = "next_line" in document
    if status != HTTPStatus.ACCEPTED and not is_partial:
        return [_told_of_all(status, document)] * lines
    unread_from = document["next_line"] if is_partial else lines + 1
    told = [Outcome.QUEUED if line < unread_from else Outcome.REFUSED for line in _from_1(lines)]
    for error in document.get("errors", []):
        told[error["line"] - 1] = Outcome.REFUSED
    for outcome, ranges in (
        (Outcome.REFUSED, document.get("unqueued_lines", [])),
        (Outcome.UNKNOWN, document.get("unknown_lines", [])),
    ):
        for first, last in ranges:
            told[first - 1 : last] = [outcome] * (last - first + 1)
    if told.count(Outcome.QUEUED) != document.get("accepted"):
        return [Outcome.BROKEN] * lines
    return told


def told_of_crawl(status: int, body: bytes) -> tuple[Outcome, str]:
    """And its number; a crawl is taken with all its seeds, or not at all."""
    document = _document(body)
    if status == HTTPStatus.CREATED and "id" in document:
        return Outcome.QUEUED, str(document["id"])
    outcome = Outcome.BROKEN if status == HTTPStatus.ACCEPTED else _told_of_all(status, document)
    return outcome, "-"


def _told_of_all(status: int, document: dict[str, Any]) -> Outcome:
    if status == HTTPStatus.ACCEPTED:
        return Outcome.QUEUED
    if document.get("status") != status:
        return Outcome.BROKEN
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        is_unknown = document.get("outcome") == "unknown"
        return Outcome.UNKNOWN if is_unknown else Outcome.REFUSED
    is_refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return Outcome.REFUSED if is_refused else Outcome.BROKEN


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _from_1(count: int) -> range:
    return range(1, count + 1)
