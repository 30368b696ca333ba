"""Settings from the environment: the only place that reads it."""

import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigError

DEFAULT_FAKTORY_URL = "tcp://localhost:7419"
# A server takes 2,000 from everybody together; more than this makes it no cheaper per job.
DEFAULT_CONNECTIONS = 96


class FaktorySettings(BaseSettings):
    """Where the server is and how many connections this service may hold there."""

    model_config = SettingsConfigDict(env_prefix="FAKTORY_", frozen=True)

    url: str = DEFAULT_FAKTORY_URL
    ca_file: Path | None = None
    connections: int = Field(default=DEFAULT_CONNECTIONS, ge=3, le=1800)


class WorkerSettings(BaseSettings):
    """What a worker runs."""

    model_config = SettingsConfigDict(env_prefix="WORKER_", frozen=True)

    concurrency: int = Field(default=500, ge=1, le=100_000)
    queues: str = "default"
    handlers: str = "worker.handlers.add"
    shutdown_timeout: float = Field(default=25.0, gt=0)
    idle_fetches: int = Field(default=4, ge=1)
    log_level: str = Field(default="info", pattern="(?i)^(debug|info|warning|error)$")


Settings = TypeVar("Settings", bound=BaseSettings)


def load(model: type[Settings]) -> Settings:
    """Build settings from the environment; what is wrong is said per variable, in one line."""
    try:
        return model()
    except ValidationError as error:
        prefix = model.model_config.get("env_prefix", "")
        problems = [_problem(prefix, problem) for problem in error.errors()]
        raise ConfigError("; ".join(problems)) from None


def load_faktory() -> FaktorySettings:
    """As `load`, and `FAKTORY_PROVIDER` names the variable that holds the URL, if set."""
    provider = os.environ.get("FAKTORY_PROVIDER")
    if not provider:
        return load(FaktorySettings)
    if "://" in provider:
        raise ConfigError("FAKTORY_PROVIDER must be the name of a variable, not a URL")
    url = os.environ.get(provider)
    if not url:
        raise ConfigError(f"FAKTORY_PROVIDER names {provider}, which is not set")
    return load(FaktorySettings).model_copy(update={"url": url})


def _problem(prefix: str, problem: Any) -> str:
    name = prefix + "_".join(str(part).upper() for part in problem["loc"])
    return f"{name}: {problem['msg']}"
