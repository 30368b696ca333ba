"""docs/CONFIGURATION.md has every setting as the model has it."""

import re

import pytest

from manyhands.shared.settings import SECTIONS, StageSettings
from manyhands.shared.settings.names import STAGES, Setting, settings_of, variable_of
from manyhands.shared.settings.options import default_text
from tests.support.imports import ROOT

GUIDE = (ROOT / "docs" / "CONFIGURATION.md").read_text(encoding="utf-8")
SETTINGS = [setting for section in SECTIONS for setting in settings_of(section)]


def row(name: str, setting: Setting) -> str:
    return f"| `{name}` | {default_text(setting)} | {setting.field.description} |"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: variable_of(setting.key))
def test_it_has_every_variable_with_its_default_and_meaning(setting):
    assert f"{row(variable_of(setting.key), setting)}\n" in GUIDE
    if setting.has_file:
        assert f"`{variable_of(setting.file_key)}`" in GUIDE


@pytest.mark.parametrize("name", StageSettings.model_fields)
def test_it_has_every_key_of_a_stage(name):
    setting = Setting(STAGES, name, StageSettings.model_fields[name])
    assert f"{row(name, setting)}\n" in GUIDE


def test_it_has_no_row_of_a_setting_that_is_none():
    rows = re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert len(rows) == len(set(rows))
    known = {variable_of(setting.key) for setting in SETTINGS} | set(StageSettings.model_fields)
    assert set(rows) == known


def test_its_example_is_a_file_that_can_be_used(place):
    (example,) = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    place.file("url", "tcp://:secret@faktory.example:7419")
    place.yaml(example.replace("/run/secrets/faktory-url", "url"))
    loaded = place.load()
    assert loaded.settings.stages["fetch"].feeds == "parse"
    # As it prints it further down.
    assert loaded.origin(("faktory", "url")) == "manyhands.yaml line 3, url"
    assert "# manyhands.yaml line 3, /run/secrets/faktory-url" in GUIDE
