"""Why not all of a page was seen: what was cut, and which setting or limit did it. Pure."""

from enum import StrEnum


class Cut(StrEnum):
    """Named in messages, counters and metrics."""

    # FETCH_MAX_BYTES, of what is read.
    FETCH_LIMIT = "fetch_limit"
    # FETCH_TRUNCATE_BYTES, of what is parsed.
    PARSE_LIMIT = "parse_limit"
    # The rest could not be decompressed.
    DAMAGE = "damage"
    # More nested elements, or attributes of one element, than any page written by people has.
    NESTING = "nesting"
    # More links than are followed.
    LINK_LIMIT = "link_limit"
    # Of feeds and sitemaps: no well-formed XML, at least not to its end.
    XML = "bad_xml"
    # They declare entities, with which a short text becomes a long one.
    ENTITIES = "entities"
    # The limits of sitemaps.org on URLs and decompressed bytes.
    SITEMAP_URLS = "sitemap_urls"
    SITEMAP_BYTES = "sitemap_bytes"
    # A list of sitemaps that another one names.
    NESTED_INDEX = "nested_index"


# Of a crawl, by what cut its pages.
CUT_COUNTERS = {str(cut): f"cut_by_{cut}" for cut in Cut}

# In records alone, as a crawl loses nothing by it: more links or text than a record holds, or too
# many elements for a look for the main content.
RECORD_LIMIT = "record_limit"
