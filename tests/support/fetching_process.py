"""A process with a real fetcher: it fetches hostile URLs, and an honest page all the while. What it
came to is one line of JSON.

    python -m tests.support.fetching_process MAX_BYTES HONEST_URL HOSTILE_URL…
"""

import asyncio
import json
import sys
import time
from ipaddress import ip_network

import psutil
import uvloop

from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.net.fetcher import FetchError
from manyhands.worker.net.http1_fetcher import Http1Fetcher

LOOK_EVERY_S = 0.005


async def get(fetcher: Http1Fetcher, url: str, max_bytes: int) -> str:
    """Why there is no page; else how long it is."""
    try:
        answer = await fetcher.get(
            parse_url(url),
            user_agent="Manyhands/0.1",
            max_bytes=max_bytes,
            check=lambda: None,
            wants_body=lambda _status, _content_type: True,
        )
    except FetchError as error:
        return error.reason
    return str(len(answer.body))


async def main(max_bytes: int, honest: str, hostile: list[str]) -> dict[str, object]:
    fetcher = Http1Fetcher(FetchSettings(), AddressRule([ip_network("127.0.0.0/8")]))
    process = psutil.Process()
    await get(fetcher, honest, max_bytes)
    before = highest = process.memory_info().rss
    attacks = [asyncio.create_task(get(fetcher, url, max_bytes)) for url in hostile]
    took_s: list[float] = []
    began = time.monotonic()
    while not all(attack.done() for attack in attacks):
        asked_at = time.monotonic()
        await get(fetcher, honest, max_bytes)
        took_s.append(time.monotonic() - asked_at)
        highest = max(highest, process.memory_info().rss)
        await asyncio.sleep(LOOK_EVERY_S)
    ended = time.monotonic()
    await fetcher.close()
    return {
        "ends": [attack.result() for attack in attacks],
        "grown_mb": (highest - before) / 1e6,
        "seconds": ended - began,
        "slowest_s": max(took_s, default=0.0),
    }


if __name__ == "__main__":
    found = uvloop.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
    sys.stdout.write(json.dumps(found))
