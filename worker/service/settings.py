"""The settings of this worker process, for handlers: they are imported by name, so nobody can pass
them any."""

import importlib

from manyhands.shared.settings import Settings

# What a worker reads.
SECTIONS = ("faktory", "worker", "crawl", "fetch", "allow", "sinks", "warc", "pressure", "stages")

_settings: Settings | None = None


def use(settings: Settings) -> None:
    """Called once, before handlers are imported: a process of the service is given its settings,
    and must not read what may have changed since the service was started."""
    global _settings
    _settings = settings


def current() -> Settings:
    """What was given; where nobody gave any, as in the test of a handler, what can be read."""
    if _settings is not None:
        return _settings
    # By name, so that the processes of a service do not load the readers of .env and YAML, which
    # they have no use for: a tenth of the time in which one starts.
    settings: Settings = (
        importlib.import_module("manyhands.shared.settings.loading").load(SECTIONS).settings
    )
    return settings
