"""`python -m api`: the ingest service, configured by the environment."""

import argparse
import asyncio
import logging
import signal
import sys
import tempfile

import uvicorn

from api.http_protocol import HttpProtocol
from api.keys import new_key, parse_keys
from shared.errors import ConnectFailed, ManyhandsError
from shared.faktory.client import FaktoryClient
from shared.faktory.handshake import parse_url
from shared.logs import configure_logs, get_logger
from shared.settings import (
    ApiSettings,
    BatchSettings,
    CrawlSettings,
    host_and_port,
    load,
    load_faktory,
    share_run_directory,
)

# After SIGTERM, requests have so long to be answered.
DRAIN_S = 20

HELP = """\
Settings come from the environment:
  API_BIND                 host:port (default 127.0.0.1:3000)
  API_PROCESSES            processes that share the port (default 1)
  API_KEYS                 name:scopes:sha256, comma separated; needed off loopback. `none`: no
                           keys although it listens to others, because something else guards it;
                           without keys only requests to a Host of this machine are served
  API_RATE_PER_KEY         jobs per second of each key, over all processes (default 0: no limit)
  API_ALLOW_UNKNOWN_TYPES  true: job types that no model knows are taken too (default false)
  API_MAX_BODY_BYTES       of a JSON list (default 16 MiB); API_MAX_LINE_BYTES of NDJSON (1 MiB)
  API_LOG_LEVEL            debug, info, warning or error (default info)
  BATCH_MAX_SIZE           jobs of a batch (default 100)
  BATCH_MAX_DELAY_MS       how long a job waits for others while a batch is under way (default 50)
  BATCH_AUTO_ENABLED       false: every job is pushed by itself (default true)
  FAKTORY_URL              tcp://:password@host:7419, or tcp+tls://… (default tcp://localhost:7419)
  FAKTORY_WEB_URL          the broker's HTTP side (default http://host of FAKTORY_URL:7420)
  CRAWL_SHARDS             queues that fetch jobs are spread over, by domain (default 64)

`python -m api key NAME ingest+read+admin` makes a key, and prints what API_KEYS needs of it.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m api",
        description="Take jobs over HTTP and answer when the broker has them.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command")
    key = commands.add_parser("key", help="make an API key")
    key.add_argument("name", help="who it is for")
    key.add_argument("scopes", help="ingest, read, admin; several joined by +")
    arguments = parser.parse_args()
    try:
        if arguments.command == "key":
            _print_key(arguments.name, arguments.scopes)
        else:
            _serve()
    except ManyhandsError as error:
        sys.stderr.write(f"api: {error}\n")
        return 1
    return 0


def _print_key(name: str, scopes: str) -> None:
    secret, entry = new_key(name, scopes)
    sys.stdout.write(f"key (send it as X-API-Key; it is not kept): {secret}\n")
    sys.stdout.write(f"entry for API_KEYS:                          {entry}\n")


def _serve() -> None:
    settings = load(ApiSettings)
    load(BatchSettings)
    load(CrawlSettings)
    keys = parse_keys(settings.keys.get_secret_value(), 0.0, 0.0)
    configure_logs(settings.log_level)
    asyncio.run(_check_login())
    if not keys:
        get_logger("api").warning("no API keys: whoever can connect can queue jobs")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    host, port = host_and_port(settings.bind)
    # The server raises it again when all is done; without this the process would not clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="manyhands-api-") as directory:
        share_run_directory(directory)
        uvicorn.run(
            "api.app:create",
            factory=True,
            host=host,
            port=port,
            workers=settings.processes,
            loop="uvloop",
            http=HttpProtocol,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=DRAIN_S,
        )


async def _check_login() -> None:
    """A wrong password is told at once; a broker that is away may come."""
    faktory = load_faktory()
    client = FaktoryClient(parse_url(faktory.url), ca_file=faktory.ca_file)
    try:
        await client.probe()
    except ConnectFailed as error:
        if not error.is_retryable:
            raise
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
