"""What is said of a crawl at its end: for people, and as JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from manyhands.cli.cuts import cut_texts
from manyhands.cli.figures import Look
from manyhands.shared.crawl.states import CrawlState

SHOWN_ERRORS = 10
KIB = 1024
GOOD = (CrawlState.COMPLETED, CrawlState.LIMIT_REACHED)


def is_good(look: Look) -> bool:
    return look.state in GOOD


def summary_table(look: Look) -> Table:
    table = Table(title=title(look), title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    # That of a crawl that is stopped is not over.
    time = f" in {look.seconds:,.1f} s: {rate(look):,.1f}/s" if look.seconds else ""
    table.add_row("pages", f"{look.pages:,}{time}, {size(look.counters['bytes'])}")
    table.add_row("URLs", counts(look.urls))
    table.add_row("links", counts({name: look.counters[name] for name in ("links", "duplicates")}))
    table.add_row("left out", counts(look.left_out))
    for number, text in enumerate(cut_texts(look.counters)):
        table.add_row("" if number else "cut", text)
    for number, error in enumerate(look.errors[:SHOWN_ERRORS]):
        table.add_row("" if number else "errors", error_text(error))
    more = len(look.errors) - SHOWN_ERRORS
    if more > 0:
        table.add_row("", f"and {more:,} more reasons")
    for number, host in enumerate(look.put_off):
        table.add_row("" if number else "put off", put_off_text(host))
    return table


def rate(look: Look) -> float:
    """Pages per second, from the first to the end."""
    return look.pages / look.seconds if look.seconds else 0.0


def title(look: Look) -> str:
    reason = f": {look.reason}" if look.reason else ""
    return f"crawl {look.id} {str(look.state).replace('_', ' ')}{reason}"


def error_text(error: Mapping[str, Any]) -> str:
    return f"{error['count']:,} × {error['reason']}, such as {error['sample_url']}"


def put_off_text(host: Mapping[str, Any]) -> str:
    return (
        f"{host['origin']}: {host['reason']}, tried again at {host['ready_at'][11:19]} UTC; "
        f"{host['queued']:,} URLs wait"
    )


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
        "left_out": dict(look.left_out),
        "errors": list(look.errors),
        "records": str(records),
    }
