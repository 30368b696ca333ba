"""From the URLs of sinks to the first of them that can be read back."""

from collections.abc import Sequence
from typing import cast

from manyhands.shared.errors import ConfigError
from manyhands.shared.extras import import_extra
from manyhands.shared.results.protocol import Source

# By scheme: module, class, and the extra that installs what it needs.
KINDS = {
    "jsonl": ("manyhands.shared.results.lines", "lines", "api"),
    "parquet": ("manyhands.shared.results.tables", "tables", "parquet"),
    "postgres": ("manyhands.shared.results.postgres", "Rows", "postgres"),
}
READABLE = "jsonl:FILE, parquet:DIRECTORY and postgres://… can be"


def source_among(urls: Sequence[str]) -> Source | None:
    """None: no sink of these kinds is among them. Connects to nothing. Raises ConfigError."""
    for url in urls:
        scheme = url.partition(":")[0]
        if scheme in KINDS:
            module, name, extra = KINDS[scheme]
            make = getattr(import_extra(module, f"RESULTS: {scheme}", extra), name)
            try:
                return cast("Source", make(url))
            except ConfigError as error:
                # The URL was read as that of a sink.
                raise ConfigError(f"RESULTS: {str(error).removeprefix('SINKS: ')}") from None
    return None


def why_none(urls: Sequence[str]) -> str:
    """Why there is nothing to be read."""
    if not urls:
        return "no records can be read here: RESULTS, which names the workers' SINKS, is not set"
    kinds = ", ".join(dict.fromkeys(url.partition(":")[0] for url in urls))
    return f"RESULTS names no sink that can be read back ({kinds}): {READABLE}"
