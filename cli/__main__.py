"""`python -m cli`: what a newcomer types first."""

import argparse
import asyncio
import sys

from cli.demo import run_demo
from shared.errors import ManyhandsError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cli", description="Manyhands, by hand.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="everything once, on this machine: jobs in, pages out",
        description="Start a broker, the API, a worker and a small web site; POST `add` jobs and "
        "the site's URLs, and watch them being done. All of it ends, and is removed, with it.",
    )
    demo.add_argument("--jobs", type=_positive, default=20_000, help="`add` jobs (default 20,000)")
    demo.add_argument("--pages", type=_positive, default=400, help="to fetch (default 400)")
    demo.add_argument(
        "--slots", type=_positive, default=500, help="jobs at a time in the worker (default 500)"
    )
    arguments = parser.parse_args()
    try:
        return asyncio.run(run_demo(arguments.jobs, arguments.pages, arguments.slots))
    except ManyhandsError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
