"""The names that a container's environment may have: what nobody reads is a mistake."""

from manyhands.shared.settings.names import CONFIG_VARIABLE, PROVIDER_VARIABLE, known_variables

# Faktory 1.10.0: cli/cli.go.
FAKTORY_IMAGE = {"FAKTORY_ENV", "FAKTORY_PASSWORD", "FAKTORY_SKIP_PASSWORD"}
# docker-entrypoint.sh of the image.
POSTGRES_IMAGE = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD_FILE"}
# What is read by the library that opens buckets.
AWS = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_CLOUDWATCH",
}
S3_IMAGE = {"ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"}
ELASTICSEARCH_IMAGE = {"discovery.type", "xpack.security.enabled", "ES_JAVA_OPTS"}
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
    """Every variable that a service of ours reads."""
    return {*known_variables(), CONFIG_VARIABLE, PROVIDER_VARIABLE, *AWS}


def known_to(service: str) -> set[str]:
    match service:
        case "faktory":
            return FAKTORY_IMAGE
        case "postgres":
            return POSTGRES_IMAGE
        case "s3":
            return S3_IMAGE
        case "elasticsearch":
            return ELASTICSEARCH_IMAGE
        case "grafana":
            return GRAFANA_IMAGE
        case "prometheus":
            return set()
        case _:
            return ours()
