"""The modules that WORKER_HANDLERS names: import them, then call their setup hooks."""

import importlib
import sys
import traceback
from pathlib import Path

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import Settings
from manyhands.worker.jobs.outcomes import Failed
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.jobs.setup import ProcessSetup

# Where ours were before everything was under one name.
FORMER_HANDLERS = "worker.handlers."


def load_handlers(modules: str) -> None:
    """Import what WORKER_HANDLERS names, so that its `@job`s register."""
    # `python -m` puts the current directory first; a console script would not.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    for name in filter(None, (name.strip() for name in modules.split(","))):
        try:
            importlib.import_module(name)
        except ConfigError as error:
            raise ConfigError(f"WORKER_HANDLERS: {name}: {error}") from error
        except ImportError as error:
            hint = f"; it is manyhands.{name} now" if name.startswith(FORMER_HANDLERS) else ""
            raise ConfigError(f"WORKER_HANDLERS: cannot import {name}: {error}{hint}") from error
        except BaseException as error:
            raise ConfigError(
                f"WORKER_HANDLERS: cannot import {name}: {_failure(error)}"
            ) from error
    if not REGISTRY.handlers:
        raise ConfigError(f"WORKER_HANDLERS={modules} registers no job type")


def set_up_handlers(settings: Settings) -> ProcessSetup:
    """Call the hooks of all modules, once, before the first job."""
    process = ProcessSetup.of(settings)
    try:
        REGISTRY.set_up(process)
    except ConfigError:
        raise
    except BaseException as error:
        raise ConfigError(f"WORKER_HANDLERS: a setup hook failed: {_failure(error)}") from error
    return process


def _failure(error: BaseException) -> str:
    """Foreign code can fail in any way; one line says how and where."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        where = ""  # its text has it
    failed = Failed.from_exception(error)
    return " ".join(f"{failed.error_type}: {failed.message}{where}".split())
