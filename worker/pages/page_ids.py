"""How the identities of a fetch job, of its parse job and of that one's answer follow from each
other. Pure.

The record of a page is known by the fetch job's identity: the jid that its producer was told.
"""

_PARSE = ".parse"
_PARSED = ".parsed"


def parse_id(fetch_id: str) -> str:
    return fetch_id + _PARSE


def page_id(parse_id: str) -> str:
    return parse_id.removesuffix(_PARSE)


def parsed_id(parse_id: str) -> str:
    """Of what a crawl is told of the page: a repeat of the parse job tells it again."""
    return page_id(parse_id) + _PARSED
