"""A place without any settings but those that a test puts there."""

import argparse
import os
from collections.abc import Collection
from pathlib import Path

import pytest

from manyhands.shared.settings import SECTIONS
from manyhands.shared.settings.loading import Loaded, load
from manyhands.shared.settings.names import VARIABLE_PREFIXES
from manyhands.shared.settings.options import settings_parser


class SettingsPlace:
    """An empty current directory, and an environment without variables of ours."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(directory)
        for name in list(os.environ):
            if name.startswith(VARIABLE_PREFIXES):
                monkeypatch.delenv(name)

    def environment(self, **variables: str) -> None:
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def dotenv(self, text: str) -> None:
        self.file(".env", text)

    def yaml(self, text: str) -> None:
        self.file("manyhands.yaml", text)

    def load(self, *options: str, sections: Collection[str] = SECTIONS) -> Loaded:
        """As a service does that uses these sections and is given these options."""
        return load(sections, parse(*options))


def parse(*options: str) -> argparse.Namespace:
    parser = settings_parser("service", "A service with all settings.", SECTIONS, commands="none")
    return parser.parse_args(options)
