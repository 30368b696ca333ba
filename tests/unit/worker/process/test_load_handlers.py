"""A module of handlers that cannot be imported: one line says why, whatever it did."""

import sys

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import Settings
from manyhands.worker.jobs.registry import Registry
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.process import handler_modules
from manyhands.worker.process.handler_modules import load_handlers, set_up_handlers


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from manyhands import job\n\ndef f(:\n", "SyntaxError: "),
        ("x = 1\n  y = 2\n", "IndentationError: "),
        ("import no_such_thing\n", "No module named 'no_such_thing'"),
        ("from manyhands.worker import nothing_like_it\n", "cannot import name 'nothing_like_it'"),
        ("raise RuntimeError('no\\ndatabase')\n", "RuntimeError: no database ("),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("raise GeneratorExit\n", "GeneratorExit"),
        ("open('/no/such/file')\n", "FileNotFoundError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_in_one_line(tmp_path, monkeypatch, code, said):
    (tmp_path / "broken_jobs.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ConfigError) as refusal:
        load_handlers("broken_jobs")
    text = str(refusal.value)
    assert text.startswith("WORKER_HANDLERS: cannot import broken_jobs: ")
    assert said in text
    assert "\n" not in text


def test_a_name_from_before_is_answered_with_the_one_of_today():
    with pytest.raises(ConfigError, match=r"it is manyhands\.worker\.handlers\.add now"):
        load_handlers("worker.handlers.add")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    monkeypatch.setattr(handler_modules, "REGISTRY", registry)
    return registry


def test_every_hook_is_called_once_in_its_order_with_the_same_process(registry: Registry):
    called: list[tuple[str, ProcessSetup]] = []
    registry.setup(lambda process: called.append(("first", process)))
    registry.setup(lambda process: called.append(("second", process)))
    settings = Settings()
    process = set_up_handlers(settings)
    assert called == [("first", process), ("second", process)]
    assert process.settings is settings
    assert registry.is_set_up


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("CRAWL_STATE is missing"), "CRAWL_STATE is missing"),
        (
            RuntimeError("no\ndatabase"),
            "WORKER_HANDLERS: a setup hook failed: RuntimeError: no data",
        ),
        (SystemExit(0), "WORKER_HANDLERS: a setup hook failed: SystemExit: 0 ("),
    ],
)
def test_a_hook_that_fails_is_told_in_one_line(registry: Registry, error, said):
    @registry.setup
    def fail(_process: ProcessSetup) -> None:
        raise error

    with pytest.raises(ConfigError) as refusal:
        set_up_handlers(Settings())
    assert str(refusal.value).startswith(said)
    assert "\n" not in str(refusal.value)
