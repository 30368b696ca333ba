from pathlib import Path

import pytest

from tests.support.settings_place import SettingsPlace


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsPlace:
    return SettingsPlace(tmp_path, monkeypatch)
