"""Settings of the API: defaults, and what is refused before it listens."""

from pathlib import Path

import pytest

from manyhands.api.__main__ import SECTIONS
from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import Settings
from tests.support.settings_place import SettingsPlace

KEY = f"ops:ingest+read:{'0' * 64}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsPlace:
    return SettingsPlace(tmp_path, monkeypatch)


def load(place: SettingsPlace) -> Settings:
    return place.load(sections=SECTIONS).settings


def test_without_settings_it_listens_on_this_machine_and_batches_as_the_guide_says(place):
    settings = load(place)
    api, batch = settings.api, settings.batch
    assert (api.bind, api.processes, api.allow_unknown_types) == ("127.0.0.1:3000", 1, False)
    assert (batch.max_size, batch.max_delay_ms, batch.auto_enabled) == (100, 50, True)


def test_what_is_set_is_read(place):
    place.environment(
        API_BIND="0.0.0.0:80",
        API_PROCESSES="4",
        API_KEYS=KEY,
        API_HOSTS="Api-Service, api.internal",
        API_RATE_PER_KEY="12.5",
        API_ALLOW_UNKNOWN_TYPES="true",
        API_MAX_BODY_BYTES="2048",
        API_MAX_LINE_BYTES="1024",
        API_LOG_LEVEL="DEBUG",
        BATCH_MAX_SIZE="7",
        BATCH_MAX_DELAY_MS="1.5",
        BATCH_AUTO_ENABLED="false",
    )
    settings = load(place)
    api, batch = settings.api, settings.batch
    assert api.keys.get_secret_value() == KEY
    assert api.model_dump(exclude={"keys"}) == {
        "bind": "0.0.0.0:80",
        "processes": 4,
        "hosts": ("api-service", "api.internal"),
        "rate_per_key": 12.5,
        "allow_unknown_types": True,
        "max_body_bytes": 2048,
        "max_line_bytes": 1024,
        "log_level": "DEBUG",
    }
    assert batch.model_dump() == {"max_size": 7, "max_delay_ms": 1.5, "auto_enabled": False}


@pytest.mark.parametrize("name", ["api-service:3000", "http://api-service", "a b", "*"])
def test_what_is_no_name_of_a_host_is_refused(place, name):
    place.environment(API_HOSTS=name)
    with pytest.raises(ConfigError, match=r"^API_HOSTS: .* is not the name of a host"):
        load(place)


@pytest.mark.parametrize("bind", ["127.0.0.1:3000", "localhost:0", "[::1]:3000", "127.9.9.9:1"])
def test_on_this_machine_no_key_is_needed(place, bind):
    place.environment(API_BIND=bind)
    assert load(place).api.bind == bind


@pytest.mark.parametrize("bind", ["0.0.0.0:3000", "10.0.0.1:3000", "[::]:3000", "example.com:80"])
@pytest.mark.parametrize("keys", ["", None])
def test_beyond_it_a_key_is(place, bind, keys):
    place.environment(API_BIND=bind)
    if keys is not None:
        place.environment(API_KEYS=keys)
    with pytest.raises(ConfigError, match=r"set API_KEYS, or keep API_BIND on 127\.0\.0\.1"):
        load(place)
    place.environment(API_KEYS=KEY)
    assert load(place).api.bind == bind


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_BIND", "3000"),
        ("API_BIND", ":3000"),
        ("API_BIND", "127.0.0.1:port"),
        ("API_BIND", "127.0.0.1:65536"),
        ("API_PROCESSES", "0"),
        ("API_PROCESSES", "many"),
        ("API_RATE_PER_KEY", "-1"),
        ("API_ALLOW_UNKNOWN_TYPES", "perhaps"),
        ("API_MAX_BODY_BYTES", "0"),
        ("API_MAX_LINE_BYTES", "1"),
        ("API_LOG_LEVEL", "loud"),
    ],
)
def test_what_is_wrong_is_said_by_variable(place, name, value):
    place.environment(**{name: value})
    with pytest.raises(ConfigError, match=name):
        load(place)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCH_MAX_SIZE", "0"),
        ("BATCH_MAX_SIZE", "1001"),
        ("BATCH_MAX_DELAY_MS", "-1"),
        ("BATCH_AUTO_ENABLED", "perhaps"),
    ],
)
def test_what_is_wrong_with_batches_is_said_by_variable(place, name, value):
    place.environment(**{name: value})
    with pytest.raises(ConfigError, match=name):
        load(place)


def test_a_key_is_in_no_message_and_in_no_print(place):
    place.environment(API_KEYS="mh_secret")
    place.environment(API_PROCESSES="0")
    with pytest.raises(ConfigError) as caught:
        load(place)
    assert "mh_secret" not in str(caught.value)
    place.environment(API_PROCESSES="")
    assert "mh_secret" not in repr(load(place).api)
