"""URLs that are not worth a request whatever their host is: endless trees, and, where a crawl says
so, files that are no pages. Pure.

Calendars and the like, whose URLs look like any other, are bounded by depth and by the limit on
pages per host.
"""

from collections import Counter

from manyhands.shared.urls import Url

# What BUbiNG and other large crawlers take; longer ones are nearly always made by a program that
# appends to what it was given.
MAX_LENGTH = 2048
# Half of that: the longest paths that people make, with whole titles in them, have some 500.
MAX_PATH_LENGTH = 1024
# Heritrix's limit; the deepest trees of real sites have about twelve.
MAX_SEGMENTS = 20
# As in BUbiNG, and in Heritrix, which allows two repeats: a relative link that lacks its leading
# slash makes /a/b/a/b/a/b of itself. Two are common (/2024/2024-05, /en/docs/en).
MAX_SAME_SEGMENTS = 2
# Search pages with every facet set have about a dozen.
MAX_PARAMETERS = 20

# Only HTML is parsed. What also is a word of its own or an ending of page names (.com, .js, .ai,
# .so, .py) is not here, nor is anything that may be text.
BINARY_SUFFIXES = frozenset(
    {
        # Pictures
        *("jpg", "jpeg", "jpe", "png", "gif", "bmp", "webp", "avif", "heic", "ico", "tif", "tiff"),
        *("svg", "svgz", "psd", "eps", "cr2", "nef", "dng", "djvu", "jxl"),
        # Sound and film
        *("mp3", "wav", "ogg", "oga", "opus", "flac", "aac", "m4a", "wma", "mid", "midi", "aiff"),
        *("mp4", "m4v", "avi", "mov", "mkv", "webm", "wmv", "flv", "mpg", "mpeg", "3gp", "ogv"),
        *("m3u8", "swf"),
        # Archives and images of disks
        *("zip", "gz", "tgz", "bz2", "tbz", "xz", "txz", "zst", "lz", "lzma", "7z", "rar", "tar"),
        *("iso", "img", "dmg", "vmdk", "qcow2", "ova", "cab", "torrent"),
        # Programs and packages
        *("exe", "msi", "deb", "rpm", "apk", "ipa", "pkg", "jar", "dll", "whl", "crx", "xpi"),
        *("bin", "wasm", "appimage"),
        # Documents
        *("pdf", "doc", "docx", "xls", "xlsx", "xlsm", "ppt", "pptx", "pps", "ppsx"),
        *("odt", "ods", "odp", "epub", "mobi", "azw3"),
        # Fonts and data
        *("woff", "woff2", "ttf", "otf", "eot", "sqlite", "mdb", "parquet", "hdf5", "shp"),
    }
)
# Of `scheme://host/…` at the slashes.
_SEGMENTS_FROM = 3


def trap_of(url: Url) -> str | None:
    """What speaks against the URL; None for most."""
    text = url.text
    if len(text) > MAX_LENGTH:
        return "long URL"
    page, _, query = text.partition("?")
    parts = page.split("/")
    if len(page) > MAX_PATH_LENGTH or len(parts) > MAX_SEGMENTS:
        trap = _trap_of_size(parts)
        if trap is not None:
            return trap
    # Three alike make two fewer different ones: most paths need no counting.
    if len(parts) - len(set(parts)) >= MAX_SAME_SEGMENTS and _repeats(parts):
        return "repeated segment"
    if query and query.count("&") >= MAX_PARAMETERS:
        return "many parameters"
    return None


def is_named_like_a_file(url: Url) -> bool:
    """By its suffix alone: it may be a page about a picture, too."""
    _, dot, suffix = url.text.partition("?")[0].rpartition("/")[2].rpartition(".")
    return dot != "" and suffix.lower() in BINARY_SUFFIXES


def _trap_of_size(parts: list[str]) -> str | None:
    segments = parts[_SEGMENTS_FROM:]
    if len(segments) > MAX_SEGMENTS:
        return "deep path"
    return "long path" if len("/".join(segments)) > MAX_PATH_LENGTH else None


def _repeats(parts: list[str]) -> bool:
    return max(Counter(parts[_SEGMENTS_FROM:]).values()) > MAX_SAME_SEGMENTS
