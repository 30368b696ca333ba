"""Every setting of every service: its meaning, its default, and which values are refused.

`--help` and docs/CONFIGURATION.md print a field's description. Nothing is read here: a section
made without values has its defaults.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from manyhands.shared.settings.addresses import host_and_port, is_loopback
from manyhands.shared.settings.passwords import with_password
from manyhands.shared.warc_places import ObjectAt, parse_prefix

DEFAULT_FAKTORY_URL = "tcp://localhost:7419"
# A server takes 2,000 from everybody together; more than this makes it no cheaper per job.
DEFAULT_CONNECTIONS = 96
# A parse job carries no more of a page; it has to fit into one line of the server's protocol.
MAX_PARSED_BYTES = 8 * 1024 * 1024
LOG_LEVEL: str = Field(
    default="info",
    pattern="(?i)^(debug|info|warning|error)$",
    description="debug, info, warning or error",
)


@dataclass(slots=True, frozen=True)
class HoldsPassword:
    """Marks a URL that may have a password inside."""


Url = Annotated[str, HoldsPassword()]
_SINK_URL = re.compile(r"[a-z][a-z0-9]*(\+[a-z0-9]+)?:.")
# A comma that another URL follows: hosts of one URL may be separated by commas, too.
_BETWEEN_URLS = re.compile(r"\s*,\s*(?=[a-z][a-z0-9]*(?:\+[a-z0-9]+)?:(?!\d))")


def _sink_urls(value: object) -> object:
    """Text with commas from a variable, a list from YAML."""
    parts = _BETWEEN_URLS.split(value) if isinstance(value, str) else value
    if not isinstance(parts, list):
        return parts
    urls = tuple(str(part).strip() for part in parts if str(part).strip())
    for url in urls:
        if not _SINK_URL.match(url):
            raise ValueError(
                f"{url.partition(':')[0]!r} does not begin like a sink, such as jsonl:FILE"
            )
    return urls


SinkUrls = Annotated[tuple[str, ...], BeforeValidator(_sink_urls), HoldsPassword()]
# Empty is none, not the current directory.
OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: value or None)]


_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
# Where the state of crawls is: a directory, or databases.
StatePlaces = Annotated[tuple[str, ...], HoldsPassword()]
_STATE_URL = re.compile(r"postgres(ql)?://.")


def _password_of(info: ValidationInfo) -> str:
    """Empty, too, if it was refused itself."""
    password = info.data.get("password")
    return password.get_secret_value() if isinstance(password, SecretStr) else ""


def _listed(value: object, parse: Callable[[str], object]) -> object:
    """Text with commas from a variable, a list from YAML."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        return parts
    return tuple(parse(str(part).strip()) for part in parts if str(part).strip())


S3Prefixes = Annotated[
    tuple[ObjectAt, ...], BeforeValidator(lambda value: _listed(value, parse_prefix))
]
Networks = tuple[IPv4Network | IPv6Network, ...]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FaktorySettings(Section):
    """Where the server is, and how many connections this service may open to it."""

    # Before the URL, whose check asks for it.
    password: SecretStr = Field(
        default=SecretStr(""), description="becomes part of FAKTORY_URL, if that has none"
    )
    url: Url = Field(
        default=DEFAULT_FAKTORY_URL,
        validate_default=True,
        repr=False,
        description="tcp://:password@host:7419 or tcp+tls://…; FAKTORY_PROVIDER may name another "
        "variable that holds it",
    )
    ca_file: OptionalPath = Field(
        default=None, description="CA certificate, if the server's is signed by your own CA"
    )
    connections: int = Field(
        default=DEFAULT_CONNECTIONS,
        ge=3,
        le=1800,
        description="most sockets this service opens to the server",
    )
    web_url: Url = Field(
        default="",
        repr=False,
        description="HTTP address of our broker, for the API; empty: port 7420 of the host in "
        "FAKTORY_URL",
    )

    @field_validator("url")
    @classmethod
    def _log_in(cls, value: str, info: ValidationInfo) -> str:
        return with_password(value, _password_of(info))


class WorkerSettings(Section):
    """What a worker runs."""

    concurrency: int = Field(
        default=500,
        ge=1,
        le=100_000,
        description="concurrent jobs per process: 50 local, 500 LAN, 1000 or more WAN",
    )
    processes: int = Field(
        default=1, ge=1, le=512, description="processes, each with WORKER_CONCURRENCY slots"
    )
    stages: str = Field(
        default="",
        description="`fetch:2x500 parse:1x80`: processes x slots per stage, instead of "
        "WORKER_PROCESSES and WORKER_CONCURRENCY",
    )
    source: Url = Field(
        default="",
        repr=False,
        description="where jobs come from: kafka://user:…@host:9092?group=NAME (kafka+ssl:// with "
        "TLS); empty: FAKTORY_URL",
    )
    topics: str = Field(
        default="",
        description="of a Kafka: `orders,clicks:none`; records run in the order of their key, of "
        "their `:partition` or in `:none`; empty: the topics that handlers declare",
    )
    queues: str = Field(
        default="",
        description="strict order `a,b` or weights `a:3,b:1`; `fetch.*` means the queues of all "
        "shards; empty: the queues of all registered job types",
    )
    handlers: str = Field(
        default="manyhands.worker.handlers.add",
        description="modules with @job functions, separated by commas",
    )
    shutdown_timeout: float = Field(default=25.0, gt=0, description="seconds from SIGTERM to exit")
    idle_fetches: int = Field(
        default=4, ge=1, description="FETCHes kept waiting at the server while queues are empty"
    )
    start_method: Literal["spawn", "forkserver", "fork"] = Field(
        default="spawn",
        description="how processes start; spawn is safe with threads and picks up new code on "
        "a restart",
    )
    hang_timeout: float = Field(
        default=120.0,
        gt=0,
        description="seconds an event loop may stall without using CPU before its process is "
        "replaced",
    )
    memory_limit_mb: int | None = Field(
        default=None,
        ge=1,
        description="MiB a process may use before it is drained and replaced; none: its share "
        "of the container's limit",
    )
    http_bind: str = Field(
        default="127.0.0.1:7421",
        description="host:port for /metrics, /healthz, /readyz and /status",
    )
    cloudwatch: bool = Field(
        default=False,
        description="also write metrics to stdout in CloudWatch's embedded format",
    )
    cloudwatch_put: bool = Field(
        default=False,
        description="also put metrics to CloudWatch every 15 s, with the credentials of the "
        "environment or the role",
    )
    log_level: str = LOG_LEVEL

    @field_validator("http_bind")
    @classmethod
    def _check_bind(cls, value: str) -> str:
        host_and_port(value)
        return value


class KafkaSettings(Section):
    """How a worker takes jobs from Kafka, if WORKER_SOURCE is one."""

    password: SecretStr = Field(
        default=SecretStr(""), description="becomes part of WORKER_SOURCE, if that has none"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="PLAIN", description="how user and password are sent"
    )
    ca_file: OptionalPath = Field(
        default=None, description="CA certificate, if the brokers' is signed by your own CA"
    )
    group_protocol: Literal["consumer", "classic"] = Field(
        default="consumer",
        description="consumer: KIP-848, of Kafka 4; classic: for older brokers",
    )
    instance: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]*$",
        description="name of this service in its group: it keeps its partitions over a restart; "
        "empty: none",
    )
    retry_delays_s: tuple[int, ...] = Field(
        default=(5, 30, 300, 3600),
        description="seconds before the retries of a failed record, the last one repeated; each "
        "is a topic GROUP-retry-SECONDSs",
    )

    @field_validator("retry_delays_s", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _listed(value, int)


class BrokerSettings(Section):
    """Where the broker listens and how it stores jobs."""

    bind: str = Field(default="127.0.0.1:7419", description="host:port for Faktory clients")
    http_bind: str = Field(
        default="127.0.0.1:7420",
        description="host:port for /stats, /health, /metrics, /sets/{scheduled,retries,dead}",
    )
    data: Path = Field(default=Path("broker-data"), description="directory for the database")
    password: SecretStr = Field(
        default=SecretStr(""), description="required unless it listens on loopback only"
    )
    tls_cert: OptionalPath = Field(
        default=None, description="PEM file; clients then connect with tcp+tls://"
    )
    tls_key: OptionalPath = Field(default=None, description="PEM file with the certificate's key")
    sync: Literal["full", "normal"] = Field(
        default="full",
        description="full: answered pushes and ACKs survive a power loss; normal: they survive "
        "kill -9 but not a power loss",
    )
    max_line_bytes: int = Field(
        default=64 * 1024 * 1024, ge=64 * 1024, description="longest command, in bytes"
    )
    memory_mb: int = Field(
        default=512,
        ge=128,
        description="MiB the process may use: about 100 for itself, four times the longest "
        "command, and the rest for whatever clients make it hold",
    )
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


def _host_name(text: str) -> str:
    if not _HOST_NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a host, without a port")
    return text.lower()


class ApiSettings(Section):
    """Where the API listens, whom it lets in, and how much it accepts at once."""

    bind: str = Field(default="127.0.0.1:3000", description="host:port for HTTP clients")
    processes: int = Field(default=1, ge=1, le=64, description="processes sharing the port")
    keys: SecretStr = Field(
        default=SecretStr(""),
        description="name:scopes:sha256, separated by commas; required off loopback. `none`: no "
        "keys even off loopback, because something else guards it. Without keys, only requests "
        "whose Host names this machine are served",
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="more names, separated by commas, by which this service is asked where there "
        "are no keys, for example api-service inside a compose network",
    )
    rate_per_key: float = Field(
        default=0.0,
        ge=0,
        description="jobs per second for each key, over all processes; 0: no limit",
    )
    allow_unknown_types: bool = Field(
        default=False, description="accept job types that have no model"
    )
    max_body_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1024, description="longest JSON list, in bytes"
    )
    max_line_bytes: int = Field(
        default=1024 * 1024, ge=1024, description="longest line of NDJSON, in bytes"
    )
    log_level: str = LOG_LEVEL

    @field_validator("hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _listed(value, _host_name)

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            host, _ = host_and_port(self.bind)
        except ValueError as error:
            raise ValueError(f"API_BIND: {error}") from None
        if not self.keys.get_secret_value() and not is_loopback(host):
            raise ValueError(
                "set API_KEYS, or keep API_BIND on 127.0.0.1: without a key everybody on the "
                "network could queue jobs. `manyhands api key` makes one; API_KEYS=none says "
                "that something else keeps strangers out"
            )
        return self


class BatchSettings(Section):
    """How single jobs are batched before they are pushed."""

    max_size: int = Field(default=100, ge=1, le=1000, description="most jobs in a batch")
    max_delay_ms: float = Field(
        default=50,
        ge=0,
        le=60_000,
        description="milliseconds a job waits for others while another batch is in flight",
    )
    auto_enabled: bool = Field(default=True, description="false: push every job on its own")


def _dns_server(text: str) -> str:
    host, _ = host_and_port(text)
    ip_address(host)
    return text


class FetchSettings(Section):
    """Limits of a fetch: seconds, bytes, redirects."""

    timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="seconds for the whole fetch, including redirects"
    )
    connect_timeout_s: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="seconds for DNS, connect and TLS, per request",
    )
    first_byte_timeout_s: float = Field(
        default=15.0,
        gt=0,
        le=3600,
        description="seconds from the request to the end of the response headers",
    )
    read_timeout_s: float = Field(
        default=10.0, gt=0, le=3600, description="seconds of silence between two reads of a body"
    )
    max_bytes: int = Field(
        default=10_000_000,
        ge=1,
        description="most bytes read of a page, before and after decompression",
    )
    truncate_bytes: int = Field(
        default=2_000_000,
        ge=1,
        le=MAX_PARSED_BYTES,
        description="bytes of a page that are parsed; links after them are missed",
    )
    in_flight_bytes: int = Field(
        default=128 * 1024 * 1024,
        ge=1,
        description="bytes of pages a process holds at once, until the broker has them; above "
        "this, reading pauses for all pages but one",
    )
    max_redirects: int = Field(default=5, ge=0, le=50, description="redirects followed in a row")
    user_agent: str = Field(
        default="Manyhands/0.1",
        pattern=r"^[\x21-\x7e][\x20-\x7e]*$",
        description="how we introduce ourselves",
    )
    contact: str = Field(
        default="",
        pattern=r"^[\x21-\x7e]*$",
        description="e-mail address for those whose sites fetch jobs visit; sent in the user agent",
    )
    polite: bool = Field(
        default=True,
        description="fetch jobs obey robots.txt and delays, one request at a time to a domain, "
        "whatever worker has them; false: at once, for sites of your own",
    )
    delay_s: float = Field(
        default=1.0,
        ge=0,
        le=3600,
        description="seconds from the end of an answer to a fetch job to the next request to its "
        "domain",
    )
    kept_s: float = Field(
        default=86_400.0,
        gt=0,
        le=10 * 365 * 86_400,
        description="seconds that GET /jobs/{jid} can still tell of a fetch job that has ended",
    )
    dns_servers: tuple[str, ...] = Field(
        default=(), description="for example 127.0.0.1:5353,[::1]:53; none: the system's"
    )

    @field_validator("dns_servers", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _listed(value, _dns_server)

    @property
    def agent(self) -> str:
        """With the contact."""
        return f"{self.user_agent} (+mailto:{self.contact})" if self.contact else self.user_agent


class AllowSettings(Section):
    """Private networks that a fetch may connect to."""

    nets: Networks = Field(default=(), description="for example 10.0.0.0/8,fd00::/8")

    @field_validator("nets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _listed(value, ip_network)


class CrawlSettings(Section):
    """How domains are spread over queues, and where crawls are stored. The API and every worker
    must agree."""

    shards: int = Field(
        default=64, ge=1, le=1024, description="queues that fetch jobs are spread over, by domain"
    )
    # Before the state, whose check asks for it.
    password: SecretStr = Field(
        default=SecretStr(""),
        description="becomes part of the URLs of CRAWL_STATE that have none",
    )
    state: StatePlaces = Field(
        default=(),
        repr=False,
        description="where the state of crawls is kept: a directory of this machine, or "
        "postgresql://user:…@host/db, which many machines can share; several of these, with "
        "commas, share the shards; none: no crawls",
    )
    files: OptionalPath = Field(
        default=None,
        description="directory on the machine of the API with the seed and exclusion files that "
        "crawls may name; workers get their content from CRAWL_STATE",
    )
    retry_s: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="seconds before a failed URL or host is retried; each further wait is four "
        "times as long",
    )
    limited_patience_s: float = Field(
        default=300.0,
        ge=0,
        le=30 * 86_400,
        description="seconds a crawl with a limit (pages, bytes, time, a lower depth) keeps "
        "trying a host that is unreachable or asks us to wait",
    )
    patience_s: float = Field(
        default=21_600.0,
        ge=0,
        le=30 * 86_400,
        description="the same for a crawl without a limit",
    )
    page_function_s: float = Field(
        default=10.0,
        gt=0,
        le=120,
        description="seconds that a @page function may take for a page, which fails then",
    )
    lease_s: float = Field(
        default=5.0,
        ge=1,
        le=600,
        description="seconds of silence after which a worker's shards go to another worker",
    )

    @field_validator("state", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Text with commas from a variable, a list from YAML."""
        parts = _BETWEEN_URLS.split(value) if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            return parts
        places = tuple(str(part).strip() for part in parts if str(part).strip())
        are_urls = ["://" in place for place in places]
        if any(are_urls) and not all(map(_STATE_URL.match, places)):
            # Not shown: it may hold a password.
            raise ValueError("a directory, or URLs that begin with postgresql://")
        if len(places) > 1 and not any(are_urls):
            raise ValueError("one directory, not several")
        return places

    @field_validator("state")
    @classmethod
    def _log_in(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(with_password(place, _password_of(info)) for place in value)


class SinksSettings(Section):
    """Where records go, to several places at once."""

    urls: SinkUrls = Field(
        default=(),
        repr=False,
        description="for example jsonl:pages.ndjson,warc+s3://bucket/crawls,"
        "postgres://user:…@host/db; a job is acknowledged when all have its records",
    )
    parallel: bool = Field(
        default=True, description="false: write to one sink after the other instead of all at once"
    )
    delay_s: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="seconds a record waits for others to be written with",
    )


class ResultsSettings(Section):
    """Where the pages of crawls are read back from."""

    urls: SinkUrls = Field(
        default=(),
        repr=False,
        description="the SINKS of the workers, as this machine reaches them; the first that is "
        "jsonl:FILE, parquet:DIRECTORY or postgres://… is read; none: no results over HTTP",
    )


class WarcSettings(Section):
    """Where jobs may read WARC files and write exports."""

    files: OptionalPath = Field(
        default=None,
        description="directory for local WARC files and exports; none: no local files",
    )
    s3_sources: S3Prefixes = Field(
        default=(),
        description="buckets and prefixes that jobs may read, for example "
        "s3://commoncrawl/crawl-data,s3://mine; none: nothing on S3",
    )
    s3_destinations: S3Prefixes = Field(
        default=(),
        description="buckets and prefixes that exports may be written to; none: nothing on S3",
    )


class PressureSettings(Section):
    """How full a queue may get before the stage that fills it is slowed."""

    soft_jobs: int = Field(
        default=20_000, ge=0, description="waiting jobs at which the stage is slowed"
    )
    hard_jobs: int = Field(
        default=80_000, ge=1, description="waiting jobs at which the stage is stopped"
    )
    soft_bytes: int = Field(
        default=512 * 1024 * 1024, ge=0, description="waiting bytes at which the stage is slowed"
    )
    hard_bytes: int = Field(
        default=2 * 1024 * 1024 * 1024,
        ge=1,
        description="waiting bytes at which the stage is stopped",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for unit, soft, hard in (
            ("JOBS", self.soft_jobs, self.hard_jobs),
            ("BYTES", self.soft_bytes, self.hard_bytes),
        ):
            if soft >= hard:
                raise ValueError(f"PRESSURE_SOFT_{unit} must be less than PRESSURE_HARD_{unit}")
        return self


class StageSettings(Section):
    """Overrides for a stage in WORKER_STAGES. Under WORKER_QUEUES, `cap` and `feeds` count."""

    weight: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="its share of the slots in a process that runs several stages",
    )
    cap: int | None = Field(
        default=None, ge=1, description="most slots it may use in one process; none: all"
    )
    queues: str | None = Field(
        default=None,
        description="as in WORKER_QUEUES; none: the queue of the job type with that name",
    )
    feeds: str | None = Field(
        default=None,
        description="the queue its jobs fill; the stage is slowed when that queue is full",
    )


class Settings(Section):
    """All settings of a service. Sections it does not use keep their defaults."""

    faktory: FaktorySettings = FaktorySettings()
    worker: WorkerSettings = WorkerSettings()
    kafka: KafkaSettings = KafkaSettings()
    broker: BrokerSettings = BrokerSettings()
    api: ApiSettings = ApiSettings()
    batch: BatchSettings = BatchSettings()
    fetch: FetchSettings = FetchSettings()
    allow: AllowSettings = AllowSettings()
    crawl: CrawlSettings = CrawlSettings()
    sinks: SinksSettings = SinksSettings()
    results: ResultsSettings = ResultsSettings()
    warc: WarcSettings = WarcSettings()
    pressure: PressureSettings = PressureSettings()
    # By the name of the stage; in the YAML file only.
    stages: Mapping[str, StageSettings] = {}


SECTIONS = tuple(Settings.model_fields)
