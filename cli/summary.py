"""The summary of a crawl at its end, for people and as JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from manyhands.cli.cuts import cut_texts
from manyhands.cli.figures import Snapshot
from manyhands.shared.crawl.states import CrawlState

SHOWN_ERRORS = 10
KIB = 1024
GOOD = (CrawlState.COMPLETED, CrawlState.LIMIT_REACHED)


def is_good(snapshot: Snapshot) -> bool:
    return snapshot.state in GOOD


def summary_table(snapshot: Snapshot) -> Table:
    table = Table(title=title(snapshot), title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    # The time of a crawl that was stopped is not over yet.
    time = f" in {snapshot.seconds:,.1f} s: {rate(snapshot):,.1f}/s" if snapshot.seconds else ""
    table.add_row("pages", f"{snapshot.pages:,}{time}, {size(snapshot.counters['bytes'])}")
    table.add_row("URLs", counts(snapshot.urls))
    table.add_row(
        "links", counts({name: snapshot.counters[name] for name in ("links", "duplicates")})
    )
    table.add_row("left out", counts(snapshot.left_out))
    for number, text in enumerate(cut_texts(snapshot.counters)):
        table.add_row("" if number else "cut", text)
    for number, error in enumerate(snapshot.errors[:SHOWN_ERRORS]):
        table.add_row("" if number else "errors", error_text(error))
    more = len(snapshot.errors) - SHOWN_ERRORS
    if more > 0:
        table.add_row("", f"and {more:,} more reasons")
    for number, host in enumerate(snapshot.put_off):
        table.add_row("" if number else "put off", put_off_text(host))
    for number, domain in enumerate(snapshot.held):
        table.add_row("" if number else "held", held_text(domain))
    return table


def rate(snapshot: Snapshot) -> float:
    """Pages per second, from the first to the end."""
    return snapshot.pages / snapshot.seconds if snapshot.seconds else 0.0


def title(snapshot: Snapshot) -> str:
    reason = f": {snapshot.reason}" if snapshot.reason else ""
    return f"crawl {snapshot.id} {str(snapshot.state).replace('_', ' ')}{reason}"


def error_text(error: Mapping[str, Any]) -> str:
    return f"{error['count']:,} × {error['reason']}, such as {error['sample_url']}"


def put_off_text(host: Mapping[str, Any]) -> str:
    return (
        f"{host['origin']}: {host['reason']}, tried again at {host['ready_at'][11:19]} UTC; "
        f"{host['queued']:,} URLs wait"
    )


def held_text(domain: Mapping[str, Any]) -> str:
    how = "blocked" if domain["is_blocked"] else "paused"
    return f"{domain['domain']} is {how}; {domain['queued']:,} URLs wait"


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


def summary_document(snapshot: Snapshot, records: Path) -> dict[str, Any]:
    return {
        "crawl": snapshot.id,
        "state": snapshot.state,
        "reason": snapshot.reason,
        "pages": snapshot.pages,
        "seconds": round(snapshot.seconds, 3),
        "pages_per_s": round(rate(snapshot), 3),
        "urls": dict(snapshot.urls),
        "counters": dict(snapshot.counters),
        "left_out": dict(snapshot.left_out),
        "errors": list(snapshot.errors),
        "put_off": list(snapshot.put_off),
        "held": list(snapshot.held),
        "records": str(records),
    }
