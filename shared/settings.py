"""Settings from the environment: the only place that reads it."""

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigError

DEFAULT_FAKTORY_URL = "tcp://localhost:7419"
# A server takes 2,000 from everybody together; more than this makes it no cheaper per job.
DEFAULT_CONNECTIONS = 96
LOG_LEVEL: str = Field(default="info", pattern="(?i)^(debug|info|warning|error)$")


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
    log_level: str = LOG_LEVEL


class BrokerSettings(BaseSettings):
    """Where the broker listens, and how it keeps what it is given."""

    model_config = SettingsConfigDict(env_prefix="BROKER_", frozen=True)

    bind: str = "127.0.0.1:7419"
    http_bind: str = "127.0.0.1:7420"
    data: Path = Path("broker-data")
    password: SecretStr = SecretStr("")
    tls_cert: Path | None = None
    tls_key: Path | None = None
    sync: Literal["full", "normal"] = "full"
    max_line_bytes: int = Field(default=64 * 1024 * 1024, ge=64 * 1024)
    log_level: str = LOG_LEVEL

    @model_validator(mode="after")
    def _check(self) -> Self:
        for variable, value in (("BROKER_BIND", self.bind), ("BROKER_HTTP_BIND", self.http_bind)):
            try:
                host, _ = host_and_port(value)
            except ValueError as error:
                raise ValueError(f"{variable}: {error}") from None
            if not self.password.get_secret_value() and not is_loopback(host):
                raise ValueError(
                    f"set BROKER_PASSWORD, or keep {variable} on 127.0.0.1: "
                    "without a password everybody on the network could run jobs"
                )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("BROKER_TLS_CERT and BROKER_TLS_KEY are only of use together")
        return self


def host_and_port(text: str) -> tuple[str, int]:
    """Read `host:port` or `[v6]:port`."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
    said = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return said
    return f"{prefix}{'_'.join(str(part).upper() for part in problem['loc'])}: {said}"
