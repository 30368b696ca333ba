"""Draws docs/architecture.svg. Run it from anywhere: python docs/pictures/architecture.py"""

from pathlib import Path

PICTURE = Path(__file__).resolve().parent.parent / "architecture.svg"
WIDTH, HEIGHT = 880, 430

# The panel is opaque and changes together with the text, so that it can be read on any page.
STYLE = """
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .line, .label { font-size: 12px; }
  .line, .label { fill: #57606a; }
  .panel { fill: #ffffff; stroke: #d0d7de; }
  .ours { fill: #ddf4ff; stroke: #0969da; }
  .part { fill: #ffffff; stroke: #54aeff; }
  .other { fill: #f6f8fa; stroke: #8c959f; }
  .arrow { fill: none; stroke: #57606a; stroke-width: 1.5; }
  .head { fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .line, .label { fill: #adbac7; }
    .panel { fill: #0d1117; stroke: #30363d; }
    .ours { fill: #0c2d6b; stroke: #388bfd; }
    .part { fill: #0d1117; stroke: #388bfd; }
    .other { fill: #161b22; stroke: #6e7681; }
    .arrow { stroke: #adbac7; }
    .head { fill: #adbac7; }
  }
"""


def text(x: int, y: int, words: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def box(x: int, y: int, width: int, height: int, kind: str, title: str, *lines: str) -> list[str]:
    """A box with a title at its top and lines of small print below."""
    middle = x + width // 2
    return [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>',
        text(middle, y + 22, title, "title"),
        *(text(middle, y + 41 + 16 * place, line, "line") for place, line in enumerate(lines)),
    ]


def arrow(path: str, both_ways: bool = False) -> str:
    start = ' marker-start="url(#head)"' if both_ways else ""
    return f'<path class="arrow" d="{path}" marker-end="url(#head)"{start}/>'


def drawn() -> str:
    shapes = [
        f'<rect class="panel" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="10"/>',
        # Who asks for work.
        *box(20, 40, 160, 66, "other", "Producers", "any Faktory client"),
        *box(20, 190, 160, 66, "other", "HTTP clients", "curl, scripts"),
        # What takes and keeps it.
        *box(250, 30, 170, 86, "ours", "Broker", "one process, on disk;", "or a real Faktory"),
        *box(250, 180, 170, 86, "ours", "API", "takes jobs and crawls,", "answers when stored"),
        # What does it.
        *box(520, 30, 200, 276, "ours", "Worker service", "a supervisor, its processes"),
        *box(534, 84, 172, 52, "part", "crawl", "frontier, politeness"),
        *box(534, 144, 172, 52, "part", "fetch, parse, warc", "pages to records"),
        *box(534, 204, 172, 52, "part", "your @job code", "async or plain def"),
        text(620, 276, "thousands of slots,", "label"),
        text(620, 292, "a few dozen sockets", "label"),
        # What it talks to.
        *box(764, 40, 100, 66, "other", "The web", "politely"),
        *box(764, 152, 100, 148, "other", "Sinks", "JSONL", "WARC", "Parquet", "PostgreSQL"),
        text(814, 257, "Elasticsearch", "line"),
        text(814, 273, "Kafka", "line"),
        *box(250, 340, 470, 66, "other", "Crawl state", "SQLite files, each with one owner"),
        arrow("M 180 73 H 246"),
        arrow("M 180 223 H 246"),
        arrow("M 335 180 V 120"),
        text(345, 154, "PUSHB", "label", "start"),
        arrow("M 424 73 H 516", both_ways=True),
        text(470, 63, "FETCH", "label"),
        text(470, 91, "ACK, FAIL", "label"),
        arrow("M 724 73 H 760", both_ways=True),
        arrow("M 720 226 H 760"),
        arrow("M 335 270 V 336", both_ways=True),
        arrow("M 620 310 V 336", both_ways=True),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="Clients push jobs to the '
            'API or the broker, workers take them over a few sockets and write records to sinks">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto-start-reverse">'
            '<path class="head" d="M 0 0 L 8 4 L 0 8 z"/></marker></defs>',
            *shapes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
