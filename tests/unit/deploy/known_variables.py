"""The names that a container's environment may have: what nobody reads is a mistake."""

import inspect

from pydantic_settings import BaseSettings

from shared import settings

# Faktory 1.10.0: cli/cli.go.
FAKTORY_IMAGE = {"FAKTORY_ENV", "FAKTORY_PASSWORD", "FAKTORY_SKIP_PASSWORD"}
# Grafana reads GF_<section>_<key> for every key of its configuration.
GRAFANA_IMAGE = {
    "GF_ANALYTICS_CHECK_FOR_UPDATES",
    "GF_ANALYTICS_REPORTING_ENABLED",
    "GF_AUTH_ANONYMOUS_ENABLED",
    "GF_AUTH_BASIC_ENABLED",
    "GF_AUTH_DISABLE_LOGIN_FORM",
    "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH",
    "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION",
    "GF_SERVER_HTTP_PORT",
}


def ours() -> set[str]:
    """Every variable that a model of shared/settings.py reads."""
    models = [
        model
        for _, model in inspect.getmembers(settings, inspect.isclass)
        if issubclass(model, BaseSettings) and model is not BaseSettings
    ]
    return {
        f"{model.model_config.get('env_prefix', '')}{field}".upper()
        for model in models
        for field in model.model_fields
    }


def known_to(service: str) -> set[str]:
    match service:
        case "faktory":
            return FAKTORY_IMAGE
        case "grafana":
            return GRAFANA_IMAGE
        case "prometheus":
            return set()
        case _:
            return ours()
