"""Derives the ids of a parse job, its record and its answer from the fetch job's. Pure.

The record of a page has the fetch job's id: the jid that its producer got.
"""

_PARSE = ".parse"
_PARSED = ".parsed"


def parse_id(fetch_id: str) -> str:
    return fetch_id + _PARSE


def page_id(parse_id: str) -> str:
    return parse_id.removesuffix(_PARSE)


def parsed_id(parse_id: str) -> str:
    """Of the answer to the crawl: a repeat of the parse job sends the same one."""
    return page_id(parse_id) + _PARSED
