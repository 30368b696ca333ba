"""What can be typed: the commands, their options, and examples of them."""

import argparse
from pathlib import Path
from typing import get_args

from manyhands.cli.api_client import DEFAULT_URL
from manyhands.shared.crawl.spec import PolitenessSpec, ScopeSpec

DATA_DIRECTORY = Path("manyhands-data")
DEFAULT_MAX_PAGES = 100
# What fits into the request that starts a crawl.
MOST_DEMO_HOSTS = 10_000
WITHIN = tuple(
    value for value in get_args(ScopeSpec.model_fields["within"].annotation) if value != "listed"
)

PROG = "manyhands"
EPILOG = """
The services by themselves, each with its settings as options (`manyhands worker --help`):
  manyhands broker        a Faktory server in one process
  manyhands api           takes jobs and crawls over HTTP
  manyhands worker        runs jobs

Everything needs nothing but this machine: `demo` first, then `crawl` for a site of your own,
`up` for a service that takes crawls and jobs over HTTP.

exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted
"""
DEMO_EXAMPLES = """
examples:
  {prog}
  {prog} --hosts 500 --pages 20000 --delay 0.5
"""
CRAWL_EXAMPLES = """
examples:
  {prog} https://example.org --email me@example.org
  {prog} https://example.org --email me@example.org --max-pages 1000 --within domains \\
      --exclude '*/search?*' --output pages.ndjson
  {prog} --state manyhands-data          goes on with what was interrupted there

robots.txt is obeyed, and one page at a time is fetched from a domain. Pages of your own network are
not fetched unless ALLOW_NETS names it: ALLOW_NETS=127.0.0.0/8 {prog} http://localhost:8000 ...
"""
UP_EXAMPLES = """
examples:
  {prog}
  API_KEYS=... {prog} --dir /srv/crawls --api-bind 0.0.0.0:3000

Settings come from the environment, as for the services themselves: WORKER_STAGES, FETCH_...,
API_KEYS (docs/CONFIGURATION.md). The logs are in DIR/logs.
"""
SUBMIT_EXAMPLES = """
examples:
  {prog} urls.txt
  {prog} urls.txt.zst --api https://crawler.example.org --key $KEY
  {prog} --crawl 3 more-seeds.txt
  zcat jobs.ndjson.gz | {prog} -

A line is a URL, a whole job {{"jobtype": ..., "args": ...}}, or the arguments of one (see --type).
Packed files (gzip, zstd) are sent as they are.
"""
WARC_EXAMPLES = """
examples:
  {prog} crawl.warc.gz s3://bucket/other.warc.gz
  {prog} warc.paths.gz --prefix https://data.commoncrawl.org/
  {prog} warc.paths.gz --prefix s3://commoncrawl/ --export s3://bucket/tables

Files whose names end in .paths, .txt, .list or .lst (also .gz, .zst) are lists: a WARC file in each
line, a path or a URL. Relative paths without a prefix begin at the WARC_FILES of the worker, and so
does the directory of an export; a worker reads no local files outside of it.
"""
STATUS_EXAMPLES = """
examples:
  {prog}
  {prog} 3 --watch
  {prog} 3 --json | jq .urls
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Manyhands: crawls that are polite, wide and lose nothing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(_command(commands, "demo", "a crawl of a made-up web, live", DEMO_EXAMPLES))
    _add_crawl(_command(commands, "crawl", "crawl a site, and end with it", CRAWL_EXAMPLES))
    _add_up(_command(commands, "up", "run all services until Ctrl-C", UP_EXAMPLES))
    _add_submit(_command(commands, "submit", "send a file of URLs or jobs", SUBMIT_EXAMPLES))
    _add_warc(_command(commands, "warc", "parse or export WARC files", WARC_EXAMPLES))
    _add_status(_command(commands, "status", "show queues and crawls", STATUS_EXAMPLES))
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    examples: str,
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        epilog=examples.format(prog=f"{PROG} {name}"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.description = (
        "Start a broker, the API, workers and a made-up web on this machine, crawl that web, and\n"
        "let it say how politely it was visited. All of it ends, and is removed, with the crawl."
    )
    demo.add_argument(
        "--hosts", type=_demo_hosts, default=100, metavar="N", help="of the web (default 100)"
    )
    demo.add_argument(
        "--pages", type=_positive, default=2000, metavar="N", help="of all hosts (default 2000)"
    )
    demo.add_argument(
        "--delay",
        type=_seconds,
        default=0.1,
        metavar="S",
        help="seconds between two pages of a domain (default 0.1)",
    )
    demo.add_argument(
        "--slots", type=_positive, default=200, metavar="N", help="pages at a time (default 200)"
    )


def _add_crawl(crawl: argparse.ArgumentParser) -> None:
    crawl.description = (
        "Start a broker, the API and a worker on this machine, crawl from these URLs, write a\n"
        "record of each page as a line of JSON, and end. Interrupted, it goes on next time."
    )
    crawl.add_argument("urls", nargs="*", metavar="URL", help="where to start; none: go on")
    crawl.add_argument(
        "--email",
        metavar="ADDRESS",
        help="whom a site's owner can write to; sent with each request",
    )
    crawl.add_argument(
        "--max-pages",
        type=_positive,
        default=DEFAULT_MAX_PAGES,
        metavar="N",
        help=f"end after so many (default {DEFAULT_MAX_PAGES})",
    )
    crawl.add_argument(
        "--within",
        choices=WITHIN,
        default="hosts",
        help="follow links to: the hosts of the URLs (default), their domains with all hosts, "
        "no page but the URLs themselves, anywhere",
    )
    crawl.add_argument(
        "--max-depth",
        type=_count,
        default=ScopeSpec().max_depth,
        metavar="N",
        help=f"links from a URL given here (default {ScopeSpec().max_depth})",
    )
    crawl.add_argument(
        "--delay",
        type=_seconds,
        default=PolitenessSpec().delay_s,
        metavar="S",
        help="seconds between two pages of a domain (default 1)",
    )
    crawl.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out URLs like this one; * stands for anything (may be repeated)",
    )
    crawl.add_argument(
        "--output", type=Path, metavar="FILE", help="of the records (default: in the state's DIR)"
    )
    crawl.add_argument(
        "--state",
        type=Path,
        default=DATA_DIRECTORY,
        metavar="DIR",
        help=f"where the crawl is kept (default {DATA_DIRECTORY})",
    )
    crawl.add_argument("--json", action="store_true", help="the summary as JSON, on stdout")


def _add_up(up: argparse.ArgumentParser) -> None:
    up.description = (
        "Run the broker, the API and the workers on this machine until Ctrl-C. Nothing is\n"
        "restarted: if one of them ends, all do, with an error."
    )
    up.add_argument(
        "--dir",
        type=Path,
        default=DATA_DIRECTORY,
        metavar="DIR",
        help=f"where jobs, crawls and records are kept (default {DATA_DIRECTORY})",
    )
    up.add_argument(
        "--api-bind", metavar="HOST:PORT", help="where the API listens (default 127.0.0.1:3000)"
    )


def _add_submit(submit: argparse.ArgumentParser) -> None:
    submit.description = (
        "Send a file of any size, a line each, and tell which lines were refused and why."
    )
    submit.add_argument("file", metavar="FILE", help="- is what comes on stdin")
    _add_api(submit)
    submit.add_argument(
        "--type",
        default="fetch",
        metavar="JOBTYPE",
        help="what lines of JSON without a jobtype are the arguments of (default fetch)",
    )
    submit.add_argument(
        "--crawl",
        type=_positive,
        metavar="ID",
        help="add the URLs to this crawl as seeds, instead of as jobs",
    )


def _add_warc(warc: argparse.ArgumentParser) -> None:
    warc.description = (
        "Queue WARC and WAT files to be parsed: a record of each page goes to the worker's sinks.\n"
        "Or export them, and WET files, to Parquet: a row for each record."
    )
    warc.add_argument(
        "files", nargs="+", metavar="FILE", help="a path, http(s):// or s3://; or a list of such"
    )
    _add_api(warc)
    warc.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="goes before relative paths in lists, such as https://data.commoncrawl.org/",
    )
    warc.add_argument(
        "--export",
        metavar="DESTINATION",
        help="write each as a Parquet file to this directory or s3://bucket/prefix, instead",
    )


def _add_status(status: argparse.ArgumentParser) -> None:
    status.description = "Show the queues and the newest crawls, or one crawl in full."
    status.add_argument("crawl", nargs="?", type=_positive, metavar="CRAWL", help="its number")
    _add_api(status)
    status.add_argument("--watch", action="store_true", help="again every second, until Ctrl-C")
    status.add_argument("--json", action="store_true", help="as JSON, on stdout")


def _add_api(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--api", type=_http_url, default=DEFAULT_URL, metavar="URL", help=f"default {DEFAULT_URL}"
    )
    command.add_argument("--key", metavar="KEY", help="the API key, if it wants one")


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def _demo_hosts(text: str) -> int:
    number = _positive(text)
    if number > MOST_DEMO_HOSTS:
        raise argparse.ArgumentTypeError(f"{MOST_DEMO_HOSTS} at most")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("must be 0 to 3600 seconds")
    return seconds


def _http_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not http://host:port")
    return text.rstrip("/")
