"""`manyhands results`: what a crawl has found, as the API reads it back, to stdout."""

import argparse
import sys

from manyhands.cli.api_client import api_client

ROWS_AT_ONCE = 1000


async def run_results(arguments: argparse.Namespace) -> int:
    """Raises ApiFailed."""
    given = {
        "fields": arguments.fields,
        "kind": arguments.kind,
        "status": arguments.status,
        "host": arguments.host,
    }
    query: dict[str, str | int] = {
        "limit": ROWS_AT_ONCE,
        "format": str(arguments.format),
        **{name: value for name, value in given.items() if value is not None},
    }
    path = f"/crawls/{arguments.crawl}/{'links' if arguments.links else 'pages'}"
    async with api_client(arguments.api, arguments.key) as client:
        while True:
            answer = await client.answer(path, **query)
            sys.stdout.buffer.write(answer.content)
            # Nobody may read any more: that is seen here, and not after the last page.
            sys.stdout.buffer.flush()
            if "next" not in answer.links:
                return 0
            query["cursor"] = answer.headers["next-cursor"]
