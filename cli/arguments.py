"""The commands of `manyhands`, their options and examples."""

import argparse
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from manyhands.cli.api_client import DEFAULT_URL
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.crawl.page_fields import CHOICES, DEFAULT_NAME, RecordKind
from manyhands.shared.crawl.spec import DiscoverySpec, PolitenessSpec, ScopeSpec
from manyhands.shared.results.formats import Format

DATA_DIRECTORY = Path("manyhands-data")
DEMO_DIRECTORY = Path("manyhands-demo")
DEFAULT_MAX_PAGES = 100
# What fits into the request that starts a crawl.
MOST_DEMO_HOSTS = 10_000
# As CRAWL_SHARDS.
MOST_SHARDS = 1024
# Of `crawl`.
SLOTS = 200
STAGES = f"crawl:1x{SLOTS} parse:1x80"
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# As the API.
MAX_DELAY_S = 86_400
WITHIN = tuple(
    value for value in get_args(ScopeSpec.model_fields["within"].annotation) if value != "listed"
)
# Sources of URLs that are on or off.
SWITCHES = tuple(str(source) for source in Source if source is not Source.SITEMAPS)

PROG = "manyhands"
EPILOG = """
single services, with their settings as options (`manyhands worker --help`):
  manyhands broker        a Faktory server in one process
  manyhands api           accepts jobs and crawls over HTTP
  manyhands worker        runs jobs

Try `demo` first, then `crawl` with your own site. `up` runs a service that
accepts crawls and jobs over HTTP. None of them needs anything but this machine.

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
  {prog} https://example.org --email me@example.org \\
      --max-pages 1000 --within domains --exclude '*/search?*' \\
      -o pages.ndjson
  {prog} https://example.org --email me@example.org -o pages/
  {prog} --state manyhands-data          resume the crawl stored there

Obeys robots.txt and fetches one page at a time from each domain. To crawl your
own network, name it in ALLOW_NETS:
  ALLOW_NETS=127.0.0.0/8 {prog} http://localhost:8000 ...
"""
UP_EXAMPLES = """
examples:
  {prog}
  API_KEYS=... {prog} --dir /srv/crawls --api-bind 0.0.0.0:3000

The services read their settings from the environment: WORKER_STAGES, FETCH_...,
API_KEYS and so on (docs/CONFIGURATION.md). Logs are in DIR/logs.
"""
SUBMIT_EXAMPLES = """
examples:
  {prog} urls.txt
  {prog} urls.txt.zst --api https://crawler.example.org --key $KEY
  {prog} --crawl 3 more-seeds.txt
  zcat jobs.ndjson.gz | {prog} -

Each line is a URL, a job {{"jobtype": ..., "args": ...}}, or just its arguments
(see --type). Compressed files (gzip, zstd) are sent as they are.
"""
WARC_EXAMPLES = """
examples:
  {prog} crawl.warc.gz s3://bucket/other.warc.gz
  {prog} warc.paths.gz --prefix https://data.commoncrawl.org/
  {prog} warc.paths.gz --prefix s3://commoncrawl/ \\
      --export s3://bucket/tables

Files ending in .paths, .txt, .list or .lst (also .gz, .zst) are lists with one
WARC file, a path or a URL, per line. Relative paths without a prefix start at
the worker's WARC_FILES, as does the directory of an export; a worker reads no
other local files.
"""
STATUS_EXAMPLES = """
examples:
  {prog}
  {prog} 3 --watch
  {prog} 3 --json | jq .urls
"""
RESULTS_EXAMPLES = """
examples:
  {prog} 3 > pages.ndjson
  {prog} 3 --kind failed --fields url,reason --format csv
  {prog} 3 --links | head

The API reads them back from a sink that its RESULTS names; `manyhands up` sets
it. While the crawl runs, what is durable is printed.
"""
DOMAIN_EXAMPLES = """
examples:
  {prog} pause example.org
  {prog} block example.org --crawl 3
  {prog} delay example.org 30
  {prog} delay example.org off

A crawl with URLs that are paused or blocked does not end before they are
fetched or purged.
"""
STATE_EXAMPLES = """
examples:
  {prog} create postgresql://crawler@db.example/crawls --shards 64
  {prog} check /srv/crawls
  {prog} copy /srv/crawls postgresql://crawler@db.example/crawls
  FAKTORY_URL=tcp://broker:7419 CRAWL_STATE=/srv/crawls {prog} adopt

A store is what CRAWL_STATE names: a directory, or postgresql:// URLs with
commas between them. Keep passwords out of the command line: in the file that
the parameter passfile of the URL names, in ~/.pgpass or in PGPASSWORD.
"""
COPY_EXAMPLES = """
examples:
  {prog} --shards 128 /srv/crawls postgresql://me@db/crawls
  {prog} postgresql://me@db/crawls /srv/crawls

Stop the workers and the API first. If it is interrupted or killed, repeat the
same command. The copy goes on as the store that SOURCE was: messages that wait
in the broker reach it. SOURCE keeps its content, but no service uses it again,
unless it is copied back. What was being fetched is fetched again.
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Manyhands: background jobs and polite web crawls that lose nothing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(_command(commands, "demo", "crawl a made-up web, live", DEMO_EXAMPLES))
    _add_crawl(_command(commands, "crawl", "crawl a site, then exit", CRAWL_EXAMPLES))
    _add_up(_command(commands, "up", "run all services until Ctrl-C", UP_EXAMPLES))
    _add_submit(_command(commands, "submit", "send a file of URLs or jobs", SUBMIT_EXAMPLES))
    _add_warc(_command(commands, "warc", "parse or export WARC files", WARC_EXAMPLES))
    _add_status(_command(commands, "status", "show queues and crawls", STATUS_EXAMPLES))
    _add_results(_command(commands, "results", "print what a crawl has found", RESULTS_EXAMPLES))
    _add_domain(_command(commands, "domain", "pause, block or slow a domain", DOMAIN_EXAMPLES))
    _add_state(_command(commands, "state", "make, check and move crawl stores", STATE_EXAMPLES))
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    examples: str,
    within: str = "",
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        epilog=examples.format(prog=" ".join(filter(None, (PROG, within, name)))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.description = (
        "Start a broker, the API, workers and a made-up web on this machine, crawl that\n"
        "web and report how politely it was visited. At the end everything is stopped;\n"
        "records, crawl state and logs stay in DIR."
    )
    demo.add_argument(
        "--hosts", type=_demo_hosts, default=100, metavar="N", help="hosts in the web (default 100)"
    )
    demo.add_argument(
        "--pages",
        type=_positive,
        default=2000,
        metavar="N",
        help="pages on all hosts (default 2000)",
    )
    demo.add_argument(
        "--delay",
        type=_seconds,
        default=0.1,
        metavar="S",
        help="seconds between two pages of a domain (default 0.1)",
    )
    demo.add_argument(
        "--dir",
        type=Path,
        default=DEMO_DIRECTORY,
        metavar="DIR",
        help=f"what it writes; that of an earlier demo is replaced (default {DEMO_DIRECTORY})",
    )
    demo.add_argument(
        "--slots", type=_positive, default=200, metavar="N", help="concurrent fetches (default 200)"
    )


def _add_crawl(crawl: argparse.ArgumentParser) -> None:
    crawl.description = (
        "Start a broker, the API and a worker on this machine, crawl from these URLs and\n"
        "write one line of JSON per page. After an interruption, the same command resumes\n"
        "the crawl."
    )
    crawl.add_argument("urls", nargs="*", metavar="URL", help="where to start; none: resume")
    crawl.add_argument(
        "--seed-file",
        metavar="FILE",
        help="more to start from, one URL a line (also .gz, .zst; - for stdin)",
    )
    crawl.add_argument(
        "--email",
        metavar="ADDRESS",
        help="contact for the owners of sites; sent with every request",
    )
    crawl.add_argument(
        "--max-pages",
        type=_positive,
        default=DEFAULT_MAX_PAGES,
        metavar="N",
        help=f"stop after N pages (default {DEFAULT_MAX_PAGES})",
    )
    crawl.add_argument(
        "--max-duration",
        type=_duration,
        metavar="TIME",
        help="stop after so long: 90 (seconds), 15m, 2h, 1d",
    )
    crawl.add_argument(
        "--within",
        choices=WITHIN,
        default="hosts",
        help="which links to follow: on the same hosts (default), on the same domains, none "
        "(fetch only the URLs given), or anywhere",
    )
    crawl.add_argument(
        "--max-depth",
        type=_count,
        default=ScopeSpec().max_depth,
        metavar="N",
        help=f"most links away from a start URL (default {ScopeSpec().max_depth})",
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
        help="skip URLs that match; * matches anything (repeatable)",
    )
    crawl.add_argument(
        "--exclude-file",
        metavar="FILE",
        help="a list of names and patterns to skip, one a line",
    )
    crawl.add_argument(
        "--skip-files",
        action="store_true",
        help="do not ask for URLs that are named like a file (.pdf, .jpg)",
    )
    crawl.add_argument(
        "--without",
        action="append",
        choices=SWITCHES,
        default=[],
        metavar="SOURCE",
        help="take no URLs from there: " + ", ".join(SWITCHES) + " (repeatable)",
    )
    crawl.add_argument(
        "--sitemaps",
        choices=get_args(DiscoverySpec.model_fields["sitemaps"].annotation),
        help="which to read: those that robots.txt names (default), always also /sitemap.xml, "
        "or none",
    )
    crawl.add_argument(
        "--fields",
        default=DEFAULT_NAME,
        metavar="NAME,NAME",
        help=f"what records hold: {DEFAULT_NAME}, or any of {', '.join(CHOICES)}",
    )
    crawl.add_argument(
        "--handlers",
        metavar="MODULE",
        help="a module here with @page functions of your own, such as quotes for quotes.py",
    )
    crawl.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        help="where to write records: .jsonl, .ndjson (also .zst), .parquet, .warc.gz, or DIR/ for "
        "a folder of .md (default: .ndjson in the state DIR)",
    )
    crawl.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="URL",
        help="another place for records, as in SINKS: warc:DIR, postgres://... (repeatable)",
    )
    crawl.add_argument(
        "--stages",
        default=STAGES,
        metavar="TEXT",
        help=f"processes and slots of the worker (default '{STAGES}')",
    )
    # The name of --stages in other crawlers.
    crawl.add_argument("--max-workers", type=_positive, help=argparse.SUPPRESS)
    _add_directory(crawl, "--state", "the crawl")
    crawl.add_argument("--json", action="store_true", help="print the summary as JSON to stdout")


def _add_up(up: argparse.ArgumentParser) -> None:
    up.description = (
        "Run the broker, the API and the workers on this machine until Ctrl-C, with every\n"
        "stage: crawl, fetch, parse, add, warc, export. What ends is started again."
    )
    _add_directory(up, "--dir", "jobs, crawls and records")
    up.add_argument(
        "--api-bind", metavar="HOST:PORT", help="where the API listens (default 127.0.0.1:3000)"
    )


def _add_submit(submit: argparse.ArgumentParser) -> None:
    submit.description = (
        "Send a file of any size, line by line, and report which lines were refused and\nwhy."
    )
    submit.add_argument("file", metavar="FILE", help="a file, or - for stdin")
    _add_api(submit)
    submit.add_argument(
        "--type",
        default="fetch",
        metavar="JOBTYPE",
        help="job type for lines of JSON that have none (default fetch)",
    )
    submit.add_argument(
        "--crawl",
        type=_positive,
        metavar="ID",
        help="add the URLs to this crawl as seeds instead of queueing jobs",
    )


def _add_warc(warc: argparse.ArgumentParser) -> None:
    warc.description = (
        "Queue WARC and WAT files for parsing: one record per page goes to the worker's\n"
        "sinks. With --export, write them (and WET files) to Parquet, one row per record."
    )
    warc.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a path, an http(s):// or s3:// URL, or a list of these",
    )
    _add_api(warc)
    warc.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="prepended to relative paths in lists, e.g. https://data.commoncrawl.org/",
    )
    warc.add_argument(
        "--export",
        metavar="DESTINATION",
        help="write each as a Parquet file to this directory or s3://bucket/prefix instead",
    )


def _add_status(status: argparse.ArgumentParser) -> None:
    status.description = "Show the queues and the newest crawls, or one crawl in full."
    status.add_argument(
        "crawl", nargs="?", type=_positive, metavar="CRAWL", help="number of a crawl"
    )
    _add_api(status)
    status.add_argument("--watch", action="store_true", help="refresh every second until Ctrl-C")
    status.add_argument("--json", action="store_true", help="print JSON to stdout")


def _add_results(results: argparse.ArgumentParser) -> None:
    results.description = "Print the records of a crawl, or its links, one a line."
    results.add_argument("crawl", type=_positive, metavar="CRAWL", help="number of a crawl")
    results.add_argument(
        "--links", action="store_true", help="each link (from, to, text, rel) instead of records"
    )
    results.add_argument(
        "--format", choices=list(Format), default=Format.NDJSON, help="default: ndjson"
    )
    results.add_argument("--fields", metavar="NAME,NAME", help="only these, in this order")
    results.add_argument(
        "--kind", metavar="KIND,KIND", help=f"only of these: {', '.join(RecordKind)}"
    )
    results.add_argument("--status", type=_count, metavar="CODE", help="only with this status")
    results.add_argument("--host", metavar="NAME", help="only of this host")
    _add_api(results)


def _add_domain(domain: argparse.ArgumentParser) -> None:
    domain.description = (
        "Orders about a registrable domain with all its hosts, in one crawl or in all of\n"
        "them; each can be undone, but for purge. Workers obey within about a second, and\n"
        "finish requests under way."
    )
    commands = domain.add_subparsers(dest="domain_command", required=True, metavar="COMMAND")
    for name, text in (
        ("pause", "fetch nothing for a while; its URLs wait"),
        ("resume", "go on after a pause"),
        ("block", "fetch nothing; its URLs are kept"),
        ("unblock", "fetch them after all"),
        ("delay", "set the seconds between two requests, or take them back"),
        ("purge", "drop its waiting URLs"),
    ):
        command = _command(commands, name, text, "", "domain")
        command.add_argument("domain", metavar="DOMAIN", help="such as example.org")
        if name == "delay":
            command.add_argument(
                "seconds",
                type=_seconds_or_off,
                metavar="SECONDS",
                help="0 to 86400; off: the crawl's own delay counts again",
            )
        command.add_argument(
            "--crawl", type=_positive, metavar="ID", help="in this crawl (default: in all)"
        )
        _add_api(command)
    listing = _command(commands, "list", "domains with most URLs waiting, and rules", "", "domain")
    _add_api(listing)


def _add_directory(command: argparse.ArgumentParser, option: str, what: str) -> None:
    command.add_argument(
        option,
        type=Path,
        default=DATA_DIRECTORY,
        metavar="DIR",
        help=f"where to store {what} (default {DATA_DIRECTORY})",
    )


def _add_state(state: argparse.ArgumentParser) -> None:
    state.description = "Do something with a store of crawls, apart from the crawls in it."
    commands = state.add_subparsers(dest="state_command", required=True, metavar="COMMAND")
    create = _command(commands, "create", "make a store", "", "state")
    create.description = (
        "Make the directory, or the schema and tables in PostgreSQL. Services do that by\n"
        "themselves when they start; this tries it out. If the store is there, nothing\n"
        "changes but tables of an earlier release, which are brought up to date."
    )
    _add_store(create)
    _add_shards(create, "how many shards (default CRAWL_SHARDS)")
    check = _command(commands, "check", "recount what a store has counted", "", "state")
    check.description = (
        "Look through a store: count its rows and compare them with the counters of every\n"
        "crawl and shard, see that files are sound and that shards agree with each other.\n"
        "Changes nothing; workers may run. Exit code 1: something does not agree."
    )
    _add_store(check)
    copy = _command(commands, "copy", "bring crawls to another store", COPY_EXAMPLES, "state")
    copy.description = (
        "Bring all crawls to another store: from a directory to PostgreSQL or back, to\n"
        "another server, or to another number of shards. TARGET must have no crawls yet."
    )
    copy.add_argument("source", metavar="SOURCE", help="a directory, or postgresql:// URLs")
    copy.add_argument("target", metavar="TARGET", help="the same, made if it is not there")
    _add_shards(copy, "how many shards TARGET gets (default: as SOURCE has)")
    adopt = _command(commands, "adopt", "take over a broker whose store is gone", "", "state")
    adopt.description = (
        "A broker's queues fetch.NN belong to one store of crawls. Give them to the store\n"
        "in CRAWL_STATE if the one that has them is gone for good. FAKTORY_URL names the\n"
        "broker."
    )
    adopt.add_argument("--yes", action="store_true", help="do it; without: say what would be done")


def _add_store(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "state",
        nargs="?",
        metavar="STORE",
        help="a directory, or postgresql:// URLs (default CRAWL_STATE)",
    )


def _add_shards(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--shards", type=_shards, metavar="N", help=text)


def _add_api(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--api",
        type=_http_url,
        default=DEFAULT_URL,
        metavar="URL",
        help=f"the API (default {DEFAULT_URL})",
    )
    command.add_argument("--key", metavar="KEY", help="API key, if the API requires one")


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def _shards(text: str) -> int:
    number = _positive(text)
    if number > MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"{MOST_SHARDS} at most")
    return number


def _demo_hosts(text: str) -> int:
    number = _positive(text)
    if number > MOST_DEMO_HOSTS:
        raise argparse.ArgumentTypeError(f"{MOST_DEMO_HOSTS} at most")
    return number


def _duration(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "s")
    try:
        seconds = float(number) * UNITS_S[unit]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: 90 (seconds), 15m, 2h, 1d"
        ) from None
    if not 0 < seconds <= UNITS_S["d"] * 366:
        raise argparse.ArgumentTypeError("must be more than 0, and a year at most")
    return seconds


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("must be 0 to 3600 seconds")
    return seconds


def _seconds_or_off(text: str) -> float | None:
    try:
        seconds = None if text == "off" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither seconds nor off") from None
    if seconds is not None and not 0 <= seconds <= MAX_DELAY_S:
        raise argparse.ArgumentTypeError(f"must be 0 to {MAX_DELAY_S} seconds, or off")
    return seconds


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        # Looking at it is what finds a wrong one.
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise argparse.ArgumentTypeError(f"{text!r} is not http://host:port")
    return text.rstrip("/")
