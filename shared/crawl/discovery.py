"""Where a crawl finds URLs besides the links that people click. Pure."""

from enum import StrEnum


class Source(StrEnum):
    """Each has a switch of this name in the spec of a crawl, and stands in messages under it."""

    # <link rel="next | prev | canonical">, and "alternate" with an hreflang.
    LINK_ELEMENTS = "link_elements"
    # <frame> and <iframe>.
    FRAMES = "frames"
    # <meta http-equiv="refresh"> and the header Refresh.
    REFRESH = "refresh"
    # RSS and Atom, and <link rel="alternate"> of their types.
    FEEDS = "feeds"
    # Lists of a site's URLs: those that its robots.txt names, or /sitemap.xml.
    SITEMAPS = "sitemaps"


# Those of them that are documents of their own.
DOCUMENTS = frozenset({Source.FEEDS, Source.SITEMAPS})
# Of archives and fetch jobs, whose records have the links that people click.
NO_SOURCES: frozenset[str] = frozenset()
