"""Every command of `manyhands` except the services: what a newcomer types first."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from manyhands.cli.arguments import make_parser
from manyhands.cli.crawl import run_crawl
from manyhands.cli.demo import run_demo
from manyhands.cli.domain import run_domain
from manyhands.cli.results import run_results
from manyhands.cli.seeds import UsageError
from manyhands.cli.state import run_state
from manyhands.cli.status import run_status
from manyhands.cli.stop import INTERRUPTED
from manyhands.cli.submit import run_submit
from manyhands.cli.up import run_up
from manyhands.cli.warc import run_warc
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.private_files import keep_files_private

FAILED = 1
USAGE = 2
# As a shell tells of SIGPIPE.
CLOSED_PIPE = 141
COMMANDS: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "demo": run_demo,
    "crawl": run_crawl,
    "up": run_up,
    "submit": run_submit,
    "warc": run_warc,
    "status": run_status,
    "results": run_results,
    "domain": run_domain,
    "state": run_state,
}


def main() -> int:
    keep_files_private()
    try:
        try:
            return _run()
        finally:
            # What is still in memory would fail after the end, and be told of as a traceback.
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has seen enough, such as `head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE


def _run() -> int:
    arguments = make_parser().parse_args()
    try:
        return asyncio.run(COMMANDS[arguments.command](arguments))
    except UsageError as error:
        return _told(error, USAGE)
    except ManyhandsError as error:
        return _told(error, FAILED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def _told(error: ManyhandsError, code: int) -> int:
    print(f"manyhands: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
