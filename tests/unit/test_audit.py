"""The check of the lock against known vulnerabilities: it finds them, or says that it cannot."""

import importlib.util
from pathlib import Path
from types import ModuleType

import httpx
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "requirements" / "audit.py"


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answering(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response) -> None:
    transport = httpx.MockTransport(lambda _: answer)
    client = httpx.AsyncClient

    def make(**options: object) -> httpx.AsyncClient:
        return client(transport=transport)

    monkeypatch.setattr(audit.httpx, "AsyncClient", make)


def test_every_package_of_the_lock_is_looked_up(audit):
    packages = audit.pinned(audit.LOCK.read_text())
    assert len(packages) > 50
    assert dict(packages)["orjson"]


def test_an_advisory_is_told_and_fails(audit, monkeypatch, capsys):
    found = {"vulnerabilities": [{"id": "PYSEC-1", "fixed_in": ["2.0"], "withdrawn": None}]}
    answering(audit, monkeypatch, httpx.Response(200, json=found))
    monkeypatch.setattr(audit, "pinned", lambda _: [("a", "1.0")])
    assert audit.main() == 1
    assert "a 1.0: PYSEC-1: mended in 2.0" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [httpx.Response(404), httpx.Response(200, text="<html>")])
def test_without_a_database_it_says_that_nothing_was_checked(audit, monkeypatch, capsys, answer):
    answering(audit, monkeypatch, answer)
    assert audit.main() == 0
    assert "no advisory database could be reached: nothing was checked" in capsys.readouterr().out
