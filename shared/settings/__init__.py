"""Settings of all services. `shared.settings.loading` reads them, from the command line, the
environment, `.env` and a YAML file; a process that is handed its settings needs only the models."""

from manyhands.shared.settings.addresses import host_and_port, is_loopback
from manyhands.shared.settings.sections import (
    DEFAULT_CONNECTIONS,
    DEFAULT_FAKTORY_URL,
    MAX_PARSED_BYTES,
    SECTIONS,
    AllowSettings,
    ApiSettings,
    BatchSettings,
    BrokerSettings,
    CrawlSettings,
    FaktorySettings,
    FetchSettings,
    PressureSettings,
    ResultsSettings,
    Settings,
    SinksSettings,
    StageSettings,
    WarcSettings,
    WorkerSettings,
)

__all__ = [
    "DEFAULT_CONNECTIONS",
    "DEFAULT_FAKTORY_URL",
    "MAX_PARSED_BYTES",
    "SECTIONS",
    "AllowSettings",
    "ApiSettings",
    "BatchSettings",
    "BrokerSettings",
    "CrawlSettings",
    "FaktorySettings",
    "FetchSettings",
    "PressureSettings",
    "ResultsSettings",
    "Settings",
    "SinksSettings",
    "StageSettings",
    "WarcSettings",
    "WorkerSettings",
    "host_and_port",
    "is_loopback",
]
