"""How the identity of a fetch job and that of its parse job follow from each other. Pure.

The record of a page is known by the fetch job's identity: the jid that its producer was told.
"""

_PARSE = ".parse"


def parse_id(fetch_id: str) -> str:
    return fetch_id + _PARSE


def page_id(parse_id: str) -> str:
    return parse_id.removesuffix(_PARSE)
