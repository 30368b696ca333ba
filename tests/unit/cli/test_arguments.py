import argparse

import pytest

from manyhands.cli.arguments import WITHIN, make_parser
from manyhands.cli.crawl import crawl_request
from manyhands.cli.domain import ORDERS as DOMAIN_ORDERS
from manyhands.cli.seeds import UsageError
from manyhands.cli.state import COMMANDS as STATE_COMMANDS

COMMANDS = ("demo", "crawl", "up", "submit", "warc", "status", "domain", "state")
URL = "https://example.org/"


def parsed(*words: str) -> argparse.Namespace:
    return make_parser().parse_args(words)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(command, "--help")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert f"manyhands {command}" in text


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("fly",),
        ("demo", "--hosts", "0"),
        ("demo", "--hosts", "10001"),
        ("demo", "--pages", "some"),
        ("demo", "--delay", "-1"),
        ("demo", "--slots", "1.5"),
        ("domain", "delay", "example.org"),
        ("domain", "delay", "example.org", "-1"),
        ("domain", "delay", "example.org", "soon"),
        ("domain", "pause"),
        ("status", "--api", "localhost:3000"),
        ("status", "--api", "http://"),
        ("status", "--api", "http://host:99999"),
        ("crawl", URL, "--max-duration", "5y"),
        ("crawl", URL, "--max-duration", "0"),
        ("crawl", URL, "--max-workers", "0"),
        ("crawl", URL, "--max-pages", "0"),
        ("crawl", URL, "--within", "listed"),
        ("crawl", URL, "--delay", "nan"),
        ("status", "first"),
        ("status", "--api", "localhost:3000"),
        ("submit",),
        ("warc",),
        ("state",),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_crawl_is_asked_for_as_it_was_typed():
    request = crawl_request(
        parsed(
            *("crawl", "https://example.org", "--email", "me@example.org", "--max-pages", "7"),
            *("--within", "domains", "--max-depth", "0", "--delay", "2.5"),
            *("--exclude", "*/a*", "--exclude", "*/b*", "--max-duration", "15m"),
            *("--fields", "links, title"),
        )
    )
    assert request == {
        "contact": "me@example.org",
        "seeds": [URL],
        "scope": {"within": "domains", "max_depth": 0, "exclude": ["*/a*", "*/b*"]},
        "limits": {"pages": 7, "duration_s": 900.0},
        "politeness": {"delay_s": 2.5},
        "records": {"fields": ["links", "title"]},
    }


def test_files_are_asked_for_unless_they_are_to_be_skipped():
    request = crawl_request(parsed("crawl", URL, "--email", "me@example.org", "--skip-files"))
    assert request["scope"]["skips_files"] is True


def test_sources_that_are_left_out_are_named_in_the_request():
    words = ("--without", "frames", "--without", "refresh", "--sitemaps", "always")
    request = crawl_request(parsed("crawl", URL, "--email", "me@example.org", *words))
    assert request["discovery"] == {"frames": False, "refresh": False, "sitemaps": "always"}


@pytest.mark.parametrize("within", WITHIN)
def test_every_choice_of_scope_is_one_that_the_api_knows(within):
    request = crawl_request(parsed("crawl", URL, "--email", "me@example.org", "--within", within))
    assert request["scope"]["within"] == within


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((URL,), "--email is missing"),
        ((URL, "--email", "me"), "--email: an e-mail address is wanted"),
        (("example.org", "--email", "me@example.org"), "did you mean https://example.org/"),
        ((URL, "--email", "me@example.org", "--exclude", ""), "a pattern has 1 to"),
        ((URL, "--email", "me@example.org", "--max-depth", "1001"), "scope.max_depth"),
        ((URL, "--email", "me@example.org", "--fields", "a"), "--fields: 'a' is no field of a"),
    ],
)
def test_what_a_newcomer_does_wrong_is_named(words, said):
    with pytest.raises(UsageError, match=said.replace("[", "\\[")):
        crawl_request(parsed("crawl", *words))


@pytest.mark.parametrize(
    "words",
    [
        [],
        *([name] for name in COMMANDS),
        *(["state", name] for name in STATE_COMMANDS),
        *(["domain", name] for name in (*DOMAIN_ORDERS, "delay", "purge", "list")),
    ],
    ids=str,
)
def test_the_help_fits_a_terminal_of_80_columns(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        parsed(*words, "--help")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("usage: manyhands")
    assert [line for line in lines if len(line) > 80] == []
