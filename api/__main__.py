"""`manyhands api`: the ingest service."""

import argparse
import asyncio
import signal
import sys
import tempfile

import uvicorn

from manyhands.api.handing_down import hand_down
from manyhands.api.keys import new_key, parse_keys
from manyhands.shared.crawl.store.opening import check_store
from manyhands.shared.errors import ConnectFailed, ManyhandsError
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.http.limits import API_CONNECTIONS
from manyhands.shared.http.serving import SERVER_OPTIONS
from manyhands.shared.logs import configure_logs, get_logger, refused
from manyhands.shared.private_files import keep_files_private
from manyhands.shared.results.opening import source_among
from manyhands.shared.settings import FaktorySettings, Settings, host_and_port
from manyhands.shared.settings.loading import load
from manyhands.shared.settings.options import settings_parser
from manyhands.shared.taken_output import take_in_output

# Seconds for open requests to finish after SIGTERM.
DRAIN_S = 20

SECTIONS = ("api", "batch", "faktory", "crawl", "allow", "results")
KEYS = """
`manyhands api key NAME ingest+read+admin` creates a key and prints it with its
entry for API_KEYS.
"""
KEY = (
    "Create an API key and print it with its entry for API_KEYS, which holds only a hash of it. "
    "ingest: queue jobs, start crawls and add seeds. read: every GET. admin: everything else, "
    "such as pausing crawls and purging queues."
)


def main() -> int:
    keep_files_private()
    arguments = make_parser().parse_args()
    try:
        if arguments.command == "key":
            _print_key(arguments.name, arguments.scopes)
        else:
            _serve(load(SECTIONS, arguments).settings)
    except ManyhandsError as error:
        return refused("api", arguments.command, error)
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = settings_parser(
        "api",
        "Accept jobs and crawls over HTTP; answer once they are stored.",
        SECTIONS,
        commands="key NAME SCOPES",
        more=KEYS,
    )
    commands = parser.add_subparsers(dest="command", prog=parser.prog)
    key = commands.add_parser("key", help="create an API key", description=KEY)
    key.add_argument("name", metavar="NAME", help="who it is for")
    key.add_argument("scopes", metavar="SCOPES", help="ingest, read or admin, several joined by +")
    return parser


def _print_key(name: str, scopes: str) -> None:
    secret, entry = new_key(name, scopes)
    sys.stdout.write(f"key (send it as X-API-Key; it is not stored): {secret}\n")
    sys.stdout.write(f"entry for API_KEYS:                            {entry}\n")


def _serve(settings: Settings) -> None:
    keys = parse_keys(settings.api.keys.get_secret_value(), 0.0, 0.0)
    configure_logs(settings.api.log_level, service="api")
    take_in_output()
    source_among(settings.results.urls)
    asyncio.run(_check_login(settings.faktory))
    if settings.crawl.state:
        # A faulty store is reported at once, too.
        check_store(settings.crawl.state, settings.crawl.lease_s)
    if not keys:
        get_logger("api").warning("no API keys: anyone who can connect can queue jobs")
    host, port = host_and_port(settings.api.bind)
    # The server raises it again when all is done; without this the process would not clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="manyhands-api-") as directory:
        hand_down(settings, directory)
        uvicorn.run(
            "manyhands.api.app:create",
            factory=True,
            host=host,
            port=port,
            workers=settings.api.processes,
            loop="uvloop",
            lifespan="on",
            limit_concurrency=API_CONNECTIONS,
            timeout_graceful_shutdown=DRAIN_S,
            **SERVER_OPTIONS,
        )


async def _check_login(faktory: FaktorySettings) -> None:
    """A wrong password is reported at once; a broker that is down may still come up."""
    client = Client(parse_url(faktory.url), ca_file=faktory.ca_file)
    try:
        await client.probe()
    except ConnectFailed as error:
        if not error.is_retryable:
            raise
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
