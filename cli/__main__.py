"""`manyhands`, or `python -m cli` from a checkout: what a newcomer types first."""

import argparse
import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from cli.arguments import make_parser
from cli.crawl import run_crawl
from cli.demo import run_demo
from cli.seeds import UsageError
from cli.status import run_status
from cli.stop import INTERRUPTED
from cli.submit import run_submit
from cli.up import run_up
from cli.warc import run_warc
from shared.errors import ManyhandsError
from shared.private_files import keep_files_private

FAILED = 1
USAGE = 2


def main() -> int:
    keep_files_private()
    prog = "python -m cli" if Path(sys.argv[0]).name == "__main__.py" else "manyhands"
    arguments = make_parser(prog).parse_args()
    try:
        return asyncio.run(_run(arguments, prog))
    except UsageError as error:
        return _told(error, USAGE)
    except ManyhandsError as error:
        return _told(error, FAILED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def _run(arguments: argparse.Namespace, prog: str) -> Coroutine[Any, Any, int]:
    match arguments.command:
        case "demo":
            return run_demo(arguments)
        case "crawl":
            return run_crawl(arguments, prog)
        case "up":
            return run_up(arguments)
        case "submit":
            return run_submit(arguments)
        case "warc":
            return run_warc(arguments)
        case _:
            return run_status(arguments)


def _told(error: ManyhandsError, code: int) -> int:
    print(f"manyhands: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
