"""What records cost beside a crawl that wants links alone, as tables and targets."""

import textwrap

from loadtest.bench.crawl.cells import LINKS_ALONE, RECORDING, CrawlCell
from loadtest.lib.figures import Figure
from loadtest.lib.report import SideReport
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line

Report = SideReport[CrawlCell]

# Of the CPU time per page of links alone.
MOST = {"default": 1.5, "markdown": 2.0}
COST = Figure("us", "CPU µs/page")
RECORD_FIGURES = (
    COST,
    Figure("us_crawl", "of it crawl"),
    Figure("us_parse", "parse"),
    Figure("us_broker", "broker"),
    Figure("us_end", "the end"),
    Figure("record_bytes", "bytes of a record"),
)
TEXT = (
    "Every page leaves a record in a file of JSON lines: links alone (`--fields links`), the "
    "default record, or that and Markdown. Counted are all processes of ours, and their orderly "
    "end, when the sink finishes its file. Scrapy writes URL, status, title, links and "
    "trafilatura's main text of each page. A run counts only if the file has each page once. More "
    "than half of a synthetic page is text, and all of it is main content, so that it is dearer "
    "to extract than real articles (see [Extraction](../BENCHMARKS.md#extraction))."
)


def of_links_alone(cell: CrawlCell, side: str, report: Report) -> Spread | None:
    """CPU time per page to that of links alone, round by round."""
    found, alone = (report.values(cell, one, COST.name) for one in (side, LINKS_ALONE))
    return Spread.of_ratios(found, alone)


def record_lines(report: Report, cell: CrawlCell) -> list[str]:
    ran = [side for side in RECORDING if report.spread(cell, side, COST.name)]
    if not ran:
        return []
    lines = ["", f"## Records, {cell.title}", ""]
    lines += [*textwrap.wrap(f"{cell.web.pages:,} pages. {TEXT}", 100), ""]
    lines += table_head(
        ("median (min to max)", "× links alone", *(figure.title for figure in RECORD_FIGURES))
    )
    for side in ran:
        times = spread_text(of_links_alone(cell, side, report), 2)
        shown = (report.shown(cell, side, figure) for figure in RECORD_FIGURES)
        lines.append(table_line([RECORDING[side], times, *shown]))
    return lines
