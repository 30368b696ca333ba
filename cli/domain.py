"""`manyhands domain`: orders about one domain, in a crawl or in all, and their undoing."""

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from manyhands.cli.api_client import Api, api_client
from manyhands.cli.consoles import for_results

ORDERS: Mapping[str, Mapping[str, bool]] = {
    "pause": {"is_paused": True},
    "resume": {"is_paused": False},
    "block": {"is_blocked": True},
    "unblock": {"is_blocked": False},
}


async def run_domain(arguments: argparse.Namespace) -> int:
    """Raises ApiFailed."""
    async with api_client(arguments.api, arguments.key) as client:
        if arguments.domain_command == "list":
            _list(for_results(), await client.get("/domains"))
            return 0
        print(await _ordered(client, arguments))
    return 0


async def _ordered(client: Api, arguments: argparse.Namespace) -> str:
    everywhere = arguments.crawl is None
    place = "" if everywhere else f"/crawls/{arguments.crawl}"
    path = f"{place}/domains/{quote(arguments.domain, safe='')}"
    where = "in all crawls" if everywhere else f"in crawl {arguments.crawl}"
    if arguments.domain_command == "purge":
        purged = await client.ask("DELETE", f"{path}/queued")
        return f"{purged['domain']}: what waits {where} is being dropped"
    body: Mapping[str, Any] = ORDERS.get(arguments.domain_command) or {"delay_s": arguments.seconds}
    rule = await client.ask("PATCH", path, json=body)
    return f"{rule['domain']}, {where}: {said(rule)}"


def said(rule: Mapping[str, Any]) -> str:
    """What the rule is now."""
    found = []
    if rule["is_blocked"]:
        found.append("blocked; its URLs are kept")
    if rule["is_paused"]:
        found.append("paused; its URLs wait")
    if rule["delay_s"] is not None:
        found.append(f"a delay of {rule['delay_s']:g} s")
    return "; ".join(found) or "no rule"


def _list(console: Console, found: Mapping[str, Any]) -> None:
    if not found["domains"] and not found["rules"]:
        console.print("no domain has URLs waiting, and there is no rule")
        return
    rules = {rule["domain"]: rule for rule in found["rules"]}
    queued = {domain["domain"]: domain["queued"] for domain in found["domains"]}
    table = Table(box=None, pad_edge=False)
    table.add_column("domain", overflow="fold")
    table.add_column("URLs waiting", justify="right")
    table.add_column("rule for all crawls")
    for name in dict.fromkeys([*queued, *rules]):
        rule = said(rules[name]) if name in rules else "–"
        table.add_row(name, f"{queued.get(name, 0):,}", rule)
    console.print(table, soft_wrap=False)
