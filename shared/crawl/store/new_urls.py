"""A URL as a store takes it. Pure."""

from manyhands.shared.crawl.canonical import origin_of, page_key
from manyhands.shared.crawl.store.model import NewUrl
from manyhands.shared.urls import Url, registrable_domain


def new_url(
    url: Url, depth: int, redirects: int = 0, scope_name: str = "", note: str = ""
) -> NewUrl:
    return NewUrl(
        page_key(url),
        url.text,
        origin_of(url.text),
        registrable_domain(url.host),
        depth,
        redirects,
        scope_name,
        note=note,
    )
