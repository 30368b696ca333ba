"""Secrets in files of their own: `*_FILE`."""

from pathlib import Path

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings.layers import MOST_FILE_BYTES
from manyhands.shared.settings.names import settings_of, variable_of
from manyhands.shared.settings.sections import SECTIONS
from tests.support.settings_place import SettingsPlace

SECRET = "hunter2"


def test_these_can_be_in_a_file():
    settings = [setting for section in SECTIONS for setting in settings_of(section)]
    assert {variable_of(setting.file_key) for setting in settings if setting.has_file} == {
        "BROKER_PASSWORD_FILE",
        "API_KEYS_FILE",
        "CRAWL_PASSWORD_FILE",
        "FAKTORY_PASSWORD_FILE",
        "KAFKA_PASSWORD_FILE",
        "WORKER_SOURCE_FILE",
        "FAKTORY_URL_FILE",
        "FAKTORY_WEB_URL_FILE",
        "CRAWL_STATE_FILE",
        "SINKS_FILE",
        "RESULTS_FILE",
    }


def password(place: SettingsPlace, *options: str) -> str:
    return place.load(*options).settings.broker.password.get_secret_value()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (SECRET, SECRET),
        (f"{SECRET}\n", SECRET),
        (f"{SECRET}\r\n", SECRET),
        (f" {SECRET} \n\n", f" {SECRET} \n"),
        ("a: 'é'#\n", "a: 'é'#"),
    ],
)
def test_the_contents_are_taken_without_the_last_line_end(place, text, value):
    path = place.file("secret", text)
    place.environment(BROKER_PASSWORD_FILE=str(path))
    assert password(place) == value


def test_every_layer_can_name_a_file(place):
    for name in ("yaml", "dotenv", "environment", "option"):
        place.file(name, f"of {name}\n")
    place.yaml("broker: {password_file: yaml}")
    assert password(place) == "of yaml"
    place.dotenv("BROKER_PASSWORD_FILE=dotenv")
    assert password(place) == "of dotenv"
    place.environment(BROKER_PASSWORD_FILE="environment")
    assert password(place) == "of environment"
    assert password(place, "--broker-password-file", "option") == "of option"
    loaded = place.load("--broker-password-file", "option")
    origin = "command line --broker-password-file, option"
    assert loaded.origin(("broker", "password")) == origin


def test_a_higher_layer_wins_in_either_form(place):
    path = place.file("secret", "of the file")
    place.yaml(f"broker: {{password_file: {path}}}\nfaktory: {{url: 'tcp://of-yaml'}}")
    url = place.file("url", "tcp://of-the-file")
    place.environment(BROKER_PASSWORD="of the variable", FAKTORY_URL_FILE=str(url))
    assert password(place) == "of the variable"
    assert place.load().settings.faktory.url == "tcp://of-the-file"


def test_a_file_that_is_not_needed_need_not_be_there(place):
    place.yaml("broker: {password_file: /run/secrets/of-production}")
    place.environment(BROKER_PASSWORD=SECRET)
    assert password(place) == SECRET


def test_keys_and_url_can_be_in_files(place):
    place.file("keys", "ops:read:0\n")
    place.file("url", f"tcp://:{SECRET}@h\n")
    place.environment(API_KEYS_FILE="keys", FAKTORY_URL_FILE="url", API_BIND="0.0.0.0:3000")
    settings = place.load().settings
    assert settings.api.keys.get_secret_value() == "ops:read:0"
    assert settings.faktory.url == f"tcp://:{SECRET}@h"


def test_a_password_in_a_file_becomes_part_of_the_url(place):
    place.file("faktory", "a/b@c\n")
    place.file("state", SECRET)
    place.environment(
        FAKTORY_PASSWORD_FILE="faktory",
        FAKTORY_URL="tcp://h:7419",
        CRAWL_PASSWORD_FILE="state",
        CRAWL_STATE="postgresql://u@a,b/x?sslmode=require,postgresql://u:other@c/x",
    )
    settings = place.load().settings
    assert settings.faktory.url == "tcp://:a%2Fb%40c@h:7419"
    assert settings.crawl.state == (
        f"postgresql://u:{SECRET}@a,b/x?sslmode=require",
        "postgresql://u:other@c/x",
    )


def test_a_password_reaches_the_url_that_nobody_gave(place):
    place.environment(FAKTORY_PASSWORD=SECRET, CRAWL_PASSWORD=SECRET, CRAWL_STATE="directory")
    settings = place.load().settings
    assert settings.faktory.url == f"tcp://:{SECRET}@localhost:7419"
    assert settings.crawl.state == ("directory",)


def test_both_forms_in_one_layer_exclude_each_other(place):
    place.file("secret", SECRET)
    place.environment(BROKER_PASSWORD="x", BROKER_PASSWORD_FILE="secret")
    with pytest.raises(
        ConfigError, match=r"^BROKER_PASSWORD and BROKER_PASSWORD_FILE exclude each other$"
    ):
        place.load()


def test_both_forms_in_the_file_exclude_each_other(place):
    place.yaml("api:\n  keys: x\n  keys_file: y\n")
    with pytest.raises(ConfigError, match=r"line 2: api\.keys and .*line 3: api\.keys_file excl"):
        place.load()


def test_an_empty_form_is_not_given(place):
    place.file("secret", SECRET)
    place.environment(BROKER_PASSWORD="", BROKER_PASSWORD_FILE="secret")
    assert password(place) == SECRET


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", "cannot read nowhere: No such file or directory"),
        (".", "cannot read .: Is a directory"),
        ("empty", "empty is empty"),
        ("newline", "newline is empty"),
        ("binary", "cannot read binary: it is not UTF-8"),
        ("a\0b", "cannot read a\0b: embedded null byte"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_one_line(place, name, reason):
    place.file("empty", "")
    place.file("newline", "\n")
    (place.directory / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError) as refused:
        place.load("--broker-password-file", name)
    assert str(refused.value) == f"--broker-password-file: {reason}"


def test_a_name_that_is_none_is_refused(place):
    place.yaml("broker: {password_file: 5}")
    with pytest.raises(ConfigError, match=r"broker\.password_file: not the name of a file$"):
        place.load()


def test_a_secret_of_a_file_is_in_no_message(place):
    path: Path = place.file("secret", SECRET)
    place.environment(BROKER_PASSWORD_FILE=str(path), BROKER_SYNC="never")
    with pytest.raises(ConfigError) as refused:
        place.load()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["/dev/zero", "large"])
def test_a_file_without_an_end_is_told_in_one_line(place, tmp_path, name):
    (tmp_path / "large").write_bytes(b"x" * (MOST_FILE_BYTES + 1))
    path = tmp_path / name
    place.environment(BROKER_PASSWORD_FILE=str(path))
    with pytest.raises(ConfigError, match="longer than 1024 KiB") as refusal:
        password(place)
    assert "\n" not in str(refusal.value)
