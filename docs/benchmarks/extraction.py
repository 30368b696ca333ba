"""Measures libraries that extract the main content of pages: `python docs/benchmarks/extraction.py
DIRECTORY`, with a Python that has them. What it lacks is left out, and said.

    git clone https://github.com/scrapinghub/article-extraction-benchmark
    python -m venv peers && peers/bin/pip install resiliparse trafilatura readability-lxml \
        jusText markdownify html2text html-to-markdown
    peers/bin/python docs/benchmarks/extraction.py article-extraction-benchmark

The directory is the labelled set of that repository: `html/KEY.html.gz`, and `ground-truth.json`
with the text of each article. Texts are compared by their runs of four words, each counted as often
as it occurs; F1 is that of the mean precision and recall of all pages. Times are of the processor,
of two runs the faster, with the parse of the page.
"""

import gzip
import json
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

RUN_OF_WORDS = 4
REPEATS = 2
_WORD = re.compile(r"\w+")
_TAG = re.compile("<[^>]*>")

Extract = Callable[[str], str]


@dataclass(slots=True, frozen=True)
class Library:
    """`package` is its name on PyPI; `make` imports it."""

    name: str
    package: str
    gives: str
    make: Callable[[], Extract]


@dataclass(slots=True, frozen=True)
class Result:
    f1: float
    precision: float
    recall: float
    median_ms: float
    mean_ms: float


def _resiliparse(**options: Any) -> Extract:
    parse = import_module("resiliparse.parse.html").HTMLTree.parse
    extract = import_module("resiliparse.extract.html2text").extract_plain_text
    return lambda html: str(extract(parse(html), **options))


def _without_tags(extract: Extract) -> Extract:
    """The reduced HTML has no < but those of its tags."""
    return lambda html: unescape(_TAG.sub("", extract(html)))


def _trafilatura(*, is_fast: bool) -> Extract:
    extract = import_module("trafilatura").extract
    return lambda html: str(extract(html, include_comments=False, fast=is_fast) or "")


def _readability() -> Extract:
    document = import_module("readability").Document
    parse = import_module("lxml.html").fromstring
    return lambda html: str(parse(document(html).summary()).text_content())


def _justext() -> Extract:
    library = import_module("justext")
    words = library.get_stoplist("English")

    def extract(html: str) -> str:
        found = library.justext(html.encode(), words)
        return "\n".join(one.text for one in found if not one.is_boilerplate)

    return extract


def _html_to_markdown() -> Extract:
    convert = import_module("html_to_markdown").convert

    def extract(html: str) -> str:
        made = convert(html)
        return made if isinstance(made, str) else str(made.content)

    return extract


LIBRARIES = (
    Library(
        "resiliparse, main content",
        "resiliparse",
        "text",
        lambda: _resiliparse(main_content=True, links=False, list_bullets=False),
    ),
    Library(
        "resiliparse, all text",
        "resiliparse",
        "text",
        lambda: _resiliparse(main_content=False, links=False, list_bullets=False),
    ),
    Library(
        "resiliparse, main content as reduced HTML",
        "resiliparse",
        "HTML",
        lambda: _without_tags(_resiliparse(main_content=True, preserve_formatting="minimal_html")),
    ),
    Library("trafilatura", "trafilatura", "text", lambda: _trafilatura(is_fast=False)),
    Library("trafilatura, fast", "trafilatura", "text", lambda: _trafilatura(is_fast=True)),
    Library("readability", "readability-lxml", "HTML", _readability),
    Library("jusText", "justext", "text", _justext),
    Library(
        "markdownify, of all",
        "markdownify",
        "Markdown",
        lambda: import_module("markdownify").markdownify,
    ),
    Library(
        "html2text, of all", "html2text", "Markdown", lambda: import_module("html2text").html2text
    ),
    Library("html-to-markdown, of all", "html-to-markdown", "Markdown", _html_to_markdown),
)


def main(directory: Path) -> None:
    truth = json.loads((directory / "ground-truth.json").read_text())
    texts = {key: said["articleBody"] for key, said in truth.items()}
    pages = {
        key: gzip.decompress((directory / f"html/{key}.html.gz").read_bytes()).decode(
            errors="replace"
        )
        for key in texts
    }
    size = statistics.mean(map(len, pages.values()))
    say(f"{len(pages)} pages of {size / 1000:,.0f} KB in the mean.\n")
    say("| library | version | gives | F1 | precision | recall | ms, median | ms, mean |")
    say("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for library in LIBRARIES:
        try:
            extract = library.make()
        except ImportError as error:
            sys.stderr.write(f"{library.name} is left out: {error}\n")
            continue
        got = measure(extract, pages, texts)
        say(
            f"| {library.name} | {version(library.package)} | {library.gives} | {got.f1:.3f} "
            f"| {got.precision:.3f} | {got.recall:.3f} | {got.median_ms:.2f} | {got.mean_ms:.2f} |"
        )


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def measure(extract: Extract, pages: dict[str, str], texts: dict[str, str]) -> Result:
    precisions, recalls, times_ms = [], [], []
    for key, html in pages.items():
        took_ms, found = min(
            (_timed(extract, html) for _ in range(REPEATS)), key=lambda run: run[0]
        )
        times_ms.append(took_ms)
        precision, recall = compare(found, texts[key])
        precisions.append(precision)
        recalls.append(recall)
    precision, recall = statistics.mean(precisions), statistics.mean(recalls)
    return Result(
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        precision,
        recall,
        statistics.median(times_ms),
        statistics.mean(times_ms),
    )


def compare(found: str, expected: str) -> tuple[float, float]:
    """Precision and recall; of nothing, nothing is wrong."""
    got, wanted = _runs(found), _runs(expected)
    common = (got & wanted).total()
    precision = common / got.total() if got else float(not wanted)
    recall = common / wanted.total() if wanted else float(not got)
    return precision, recall


def _runs(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    starts = range(max(1, len(words) - RUN_OF_WORDS + 1)) if words else ()
    return Counter(tuple(words[start : start + RUN_OF_WORDS]) for start in starts)


def _timed(extract: Extract, html: str) -> tuple[float, str]:
    began_s = time.process_time()
    found = extract(html)
    return (time.process_time() - began_s) * 1000, found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
