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
        help="push and consume jobs on a broker of its own",
        description="Start a broker and a worker, push `add` jobs, watch them being done.",
    )
    demo.add_argument("--jobs", type=_positive, default=20_000, help="how many (default 20,000)")
    demo.add_argument(
        "--slots", type=_positive, default=500, help="jobs at a time in the worker (default 500)"
    )
    arguments = parser.parse_args()
    try:
        return asyncio.run(run_demo(arguments.jobs, arguments.slots))
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
