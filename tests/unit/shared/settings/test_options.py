"""The command line of each service: an option for every setting, and none for a secret."""

import argparse
import re
from collections.abc import Callable

import pytest

import manyhands.api.__main__
import manyhands.broker.__main__
from manyhands.shared.settings.names import option_of, settings_of
from manyhands.shared.settings.options import default_text, given_options
from manyhands.worker.commands.parser import make_parser as worker_parser
from manyhands.worker.service.settings import SECTIONS as WORKER_SECTIONS
from tests.support.settings_place import parse

SERVICES: dict[str, tuple[Callable[[], argparse.ArgumentParser], tuple[str, ...]]] = {
    "worker": (worker_parser, WORKER_SECTIONS),
    "api": (manyhands.api.__main__.make_parser, manyhands.api.__main__.SECTIONS),
    "broker": (manyhands.broker.__main__.make_parser, manyhands.broker.__main__.SECTIONS),
}
each_service = pytest.mark.parametrize("name", SERVICES)


def help_of(name: str, *command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        SERVICES[name][0]().parse_args([*command, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@each_service
def test_the_help_has_every_setting_with_its_meaning_and_default(name, capsys):
    said = help_of(name, capsys=capsys)
    for setting in (one for section in SERVICES[name][1] for one in settings_of(section)):
        key = setting.file_key if setting.is_secret else setting.key
        beginning = re.split(r"[-\s]", str(setting.field.description))[0]
        assert f"{option_of(key)} " in said
        assert beginning in said
        if not setting.is_secret:
            assert f"(default {default_text(setting)})" in said


@each_service
def test_the_help_is_grouped_by_section_and_says_what_goes_before_what(name, capsys):
    said = help_of(name, capsys=capsys)
    for section in SERVICES[name][1]:
        if settings_of(section):
            assert f" {section}: " in said
    assert "--config FILE" in said
    assert "The command line comes first, then the environment, .env in" in said


@each_service
def test_the_help_fits_a_terminal_of_80_columns(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = SERVICES[name][0]().format_help().splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_a_command_of_the_worker_takes_settings_too(capsys):
    assert "--worker-queues" in help_of("worker", "config", capsys=capsys)
    assert "--faktory-url" in help_of("worker", "size", capsys=capsys)
    assert "--broker-data" in help_of("broker", "backup", capsys=capsys)


def test_an_option_may_stand_before_a_command_or_after_it():
    before = ["--worker-processes", "2", "--worker-queues", "a"]
    arguments = SERVICES["worker"][0]().parse_args([*before, "config", "--worker-queues", "b"])
    assert given_options(arguments) == {("worker", "processes"): "2", ("worker", "queues"): "b"}


@pytest.mark.parametrize("option", ["--broker-password", "--api-keys"])
def test_a_secret_is_no_option(option, capsys):
    with pytest.raises(SystemExit):
        parse(option, "hunter2")
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err


def test_an_option_cannot_be_shortened(capsys):
    with pytest.raises(SystemExit):
        parse("--worker-conc", "5")
    assert "unrecognized arguments" in capsys.readouterr().err


def test_only_what_was_given_is_an_option():
    assert given_options(parse()) == {}
    assert given_options(None) == {}
