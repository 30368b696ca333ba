"""Settings from the environment: the only place that reads it."""

import os
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

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
    # The server's pages; the broker's are where its sets can be read. Default: its host, :7420.
    web_url: str = ""


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


class ApiSettings(BaseSettings):
    """Where the ingest service listens, whom it lets in, and how much it takes at once."""

    model_config = SettingsConfigDict(env_prefix="API_", frozen=True)

    bind: str = "127.0.0.1:3000"
    processes: int = Field(default=1, ge=1, le=64)
    keys: SecretStr = SecretStr("")
    # Jobs per second and key; 0 is no limit.
    rate_per_key: float = Field(default=0.0, ge=0)
    allow_unknown_types: bool = False
    max_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    max_line_bytes: int = Field(default=1024 * 1024, ge=1024)
    log_level: str = LOG_LEVEL

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            host, _ = host_and_port(self.bind)
        except ValueError as error:
            raise ValueError(f"API_BIND: {error}") from None
        if not self.keys.get_secret_value() and not is_loopback(host):
            raise ValueError(
                "set API_KEYS, or keep API_BIND on 127.0.0.1: without a key everybody on the "
                "network could queue jobs. `python -m api key` makes one; API_KEYS=none says "
                "that something else keeps strangers out"
            )
        return self


class BatchSettings(BaseSettings):
    """How single jobs are gathered before they are pushed."""

    model_config = SettingsConfigDict(env_prefix="BATCH_", frozen=True)

    max_size: int = Field(default=100, ge=1, le=1000)
    max_delay_ms: float = Field(default=50, ge=0, le=60_000)
    auto_enabled: bool = True


def host_and_port(text: str) -> tuple[str, int]:
    """Read `host:port` or `[v6]:port`."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


@lru_cache(maxsize=1024)
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


# Not a setting: how the first process of the API tells the others where they meet.
_RUN_DIRECTORY = "MANYHANDS_API_RUN_DIRECTORY"


def share_run_directory(path: str) -> None:
    os.environ[_RUN_DIRECTORY] = path


def run_directory() -> Path:
    return Path(os.environ[_RUN_DIRECTORY])


def _problem(prefix: str, problem: Any) -> str:
    said = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return said
    return f"{prefix}{'_'.join(str(part).upper() for part in problem['loc'])}: {said}"


# A parse job carries no more of a page; it has to fit into one line of the server's protocol.
MAX_PARSED_BYTES = 8 * 1024 * 1024
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode]


class FetchSettings(BaseSettings):
    """What a fetch may take: seconds, bytes, redirects."""

    model_config = SettingsConfigDict(env_prefix="FETCH_", frozen=True)

    # The whole fetch, redirects included.
    timeout_s: float = Field(default=30.0, gt=0, le=3600)
    connect_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    # The longest silence: before the first byte of an answer, and between two reads of it.
    read_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    # Read of a page, before and after decompression; the rest of a larger one is left unread.
    max_bytes: int = Field(default=1024 * 1024, ge=1)
    # Handed to the parser.
    truncate_bytes: int = Field(default=100_000, ge=1, le=MAX_PARSED_BYTES)
    max_redirects: int = Field(default=5, ge=0, le=50)
    user_agent: str = Field(default="Manyhands/0.1", pattern=r"^[\x21-\x7e][\x20-\x7e]*$")


class AllowSettings(BaseSettings):
    """Networks to which a fetch may connect although they are not public."""

    model_config = SettingsConfigDict(env_prefix="ALLOW_", frozen=True)

    nets: Networks = ()

    @field_validator("nets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())


class CrawlSettings(BaseSettings):
    """How domains are spread over queues: the same number for the API and for every worker."""

    model_config = SettingsConfigDict(env_prefix="CRAWL_", frozen=True)

    shards: int = Field(default=64, ge=1, le=1024)


class SinkSettings(BaseSettings):
    """Where records go."""

    # An empty variable is none: compose files pass them on.
    model_config = SettingsConfigDict(env_prefix="SINK_", frozen=True, env_ignore_empty=True)

    ndjson: Path | None = None
