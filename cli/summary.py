"""What is said of a crawl at its end: for people, and as JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from cli.figures import Look
from shared.crawl.states import CrawlState

SHOWN_ERRORS = 5
KIB = 1024
GOOD = (CrawlState.COMPLETED, CrawlState.LIMIT_REACHED)


def is_good(look: Look) -> bool:
    return look.state in GOOD


def summary_table(look: Look) -> Table:
    table = Table(title=title(look), title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row(
        "pages",
        f"{look.pages:,} in {look.seconds:,.1f} s: {rate(look):,.1f}/s, "
        f"{size(look.counters['bytes'])}",
    )
    table.add_row("URLs", counts(look.urls))
    found = ("links", "duplicates", "out_of_scope", "trapped", "excluded", "over_host_limit")
    table.add_row("links", counts({name: look.counters[name] for name in found}))
    for number, error in enumerate(look.errors[:SHOWN_ERRORS]):
        table.add_row("" if number else "left out", error_text(error))
    return table


def rate(look: Look) -> float:
    """Pages per second, from the first to the end."""
    return look.pages / look.seconds if look.seconds else 0.0


def title(look: Look) -> str:
    reason = f": {look.reason}" if look.reason else ""
    return f"crawl {look.id} {str(look.state).replace('_', ' ')}{reason}"


def error_text(error: Mapping[str, Any]) -> str:
    return f"{error['count']:,} × {error['reason']}, such as {error['sample_url']}"


def counts(by_name: Mapping[str, int]) -> str:
    """Without those that are 0."""
    told = [f"{name.replace('_', ' ')} {count:,}" for name, count in by_name.items() if count]
    return " · ".join(told) or "none"


def size(count: int) -> str:
    amount, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= KIB and len(units) > 1:
        amount /= KIB
        units.pop(0)
    return f"{amount:,.1f} {units[0]}" if units[0] != "B" else f"{count} B"


def summary_document(look: Look, records: Path) -> dict[str, Any]:
    return {
        "crawl": look.id,
        "state": look.state,
        "reason": look.reason,
        "pages": look.pages,
        "seconds": round(look.seconds, 3),
        "pages_per_s": round(rate(look), 3),
        "urls": dict(look.urls),
        "counters": dict(look.counters),
        "errors": list(look.errors),
        "records": str(records),
    }
