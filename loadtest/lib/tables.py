"""Numbers and tables as the reports of all benchmarks write them. Pure."""

from collections.abc import Sequence

from loadtest.lib.stats import Spread


def spread_text(value: Spread | None, digits: int = 0) -> str:
    if value is None:
        return "-"
    return f"{value.median:,.{digits}f} ({value.low:,.{digits}f} to {value.high:,.{digits}f})"


def median_text(value: Spread | None, digits: int = 0) -> str:
    return f"{value.median:,.{digits}f}" if value else "-"


def table_head(columns: tuple[str, ...], texts: int = 1) -> list[str]:
    """Return the first two lines of a Markdown table: some columns of text, then numbers."""
    return [table_line(columns), table_line(["---"] * texts + ["---:"] * (len(columns) - texts))]


def table_line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"
