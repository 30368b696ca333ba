"""`manyhands domain`: what is sent to the API, and what is said."""

from typing import Any

import pytest

from manyhands.cli import domain
from manyhands.cli.arguments import make_parser
from manyhands.cli.domain import run_domain, said
from tests.unit.cli.made_up import ScriptedApi

RULE = {"domain": "example.org", "delay_s": None, "is_blocked": False, "is_paused": False}


@pytest.mark.parametrize(
    ("words", "asked", "body", "told"),
    [
        ("pause example.org", "PATCH /domains/example.org", {"is_paused": True}, "in all crawls"),
        ("resume example.org --crawl 3", "PATCH /crawls/3/domains/example.org",
         {"is_paused": False}, "example.org, in crawl 3: no rule"),
        ("block example.org", "PATCH /domains/example.org", {"is_blocked": True}, "no rule"),
        ("unblock a/b", "PATCH /domains/a%2Fb", {"is_blocked": False}, "no rule"),
        ("delay example.org 2.5", "PATCH /domains/example.org", {"delay_s": 2.5}, "no rule"),
        ("delay example.org off", "PATCH /domains/example.org", {"delay_s": None}, "no rule"),
        ("purge example.org --crawl 3", "DELETE /crawls/3/domains/example.org/queued", None,
         "example.org: what waits in crawl 3 is being dropped"),
    ],
)  # fmt: skip
async def test_an_order_goes_to_the_api_and_its_answer_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    asked: str,
    body: dict[str, Any] | None,
    told: str,
) -> None:
    api = ScriptedApi({asked: RULE})
    monkeypatch.setattr(domain, "api_client", api.opened)
    assert await run_domain(make_parser().parse_args(["domain", *words.split()])) == 0
    assert api.bodies == [body]
    assert told in capsys.readouterr().out


def test_a_rule_is_told_in_words() -> None:
    assert said(RULE) == "no rule"
    rule = RULE | {"delay_s": 30.0, "is_paused": True, "is_blocked": True}
    assert said(rule) == "blocked; its URLs are kept; paused; its URLs wait; a delay of 30 s"


async def test_the_domains_with_urls_or_a_rule_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {
        "domains": [{"domain": "busy.example", "queued": 1234}],
        "rules": [RULE | {"domain": "quiet.example", "is_blocked": True}],
    }
    monkeypatch.setattr(domain, "api_client", ScriptedApi({"GET /domains": found}).opened)
    await run_domain(make_parser().parse_args(["domain", "list"]))
    busy, quiet = capsys.readouterr().out.splitlines()[1:]
    assert busy.split() == ["busy.example", "1,234", "–"]
    assert quiet.split()[:3] == ["quiet.example", "0", "blocked;"]
