"""Whose keys sign a request to AWS: those of the environment, or of the role that the pod, the
container or the machine has. In the order of the AWS tools; the first that is there counts.

Everything here asks over the network, and is for a thread.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from manyhands.shared.errors import ManyhandsError
from manyhands.worker.aws.asking import Answer, NoAnswer, ask
from manyhands.worker.aws.signing import Keys

TIMEOUT_S = 2.0
# Lent keys are asked for again so long before they end.
EARLY = timedelta(minutes=5)
CONTAINERS_HOST = "http://169.254.170.2"
INSTANCE = "http://169.254.169.254"
INSTANCE_TOKEN_S = "21600"
STS_VERSION = "2011-06-15"


class NoCredentials(ManyhandsError):
    """None are there, or whoever lends them does not."""


class Lent(NamedTuple):
    """Until when; None: for good."""

    keys: Keys
    until: datetime | None = None


class Credentials:
    """State: the keys that were found last."""

    def __init__(self, env: Mapping[str, str], region: str, instance: str = INSTANCE) -> None:
        self._env = env
        self._region = region
        self._instance = instance
        self._lent: Lent | None = None

    def keys(self, now: datetime) -> Keys:
        """Raises NoCredentials, NoAnswer."""
        lent = self._lent
        if lent is None or (lent.until is not None and now >= lent.until - EARLY):
            self._lent = lent = self._find()
        return lent.keys

    def forget(self) -> None:
        """They were refused: ask again next time."""
        self._lent = None

    def _find(self) -> Lent:
        env = self._env
        if "AWS_ACCESS_KEY_ID" in env and "AWS_SECRET_ACCESS_KEY" in env:
            token = env.get("AWS_SESSION_TOKEN", "")
            return Lent(Keys(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], token))
        if "AWS_WEB_IDENTITY_TOKEN_FILE" in env and "AWS_ROLE_ARN" in env:
            return self._of_pod()
        if "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" in env:
            return self._of_container(
                CONTAINERS_HOST + env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
            )
        if "AWS_CONTAINER_CREDENTIALS_FULL_URI" in env:
            return self._of_container(env["AWS_CONTAINER_CREDENTIALS_FULL_URI"])
        return self._of_instance()

    def _of_pod(self) -> Lent:
        """Kubernetes' own token for a role (IRSA)."""
        asked = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": STS_VERSION,
            "RoleArn": self._env["AWS_ROLE_ARN"],
            "RoleSessionName": self._env.get("AWS_ROLE_SESSION_NAME", "manyhands"),
            "WebIdentityToken": _text_of(self._env["AWS_WEB_IDENTITY_TOKEN_FILE"]),
        }
        endpoint = self._env.get("AWS_ENDPOINT_URL_STS", service_url("sts", self._region))
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = ask("POST", endpoint, headers, urlencode(asked).encode(), timeout_s=TIMEOUT_S)
        said = _checked(answer, "the role of the pod").decode("utf-8", "replace")
        return _lent(lambda name: _between(said, name), "SessionToken")

    def _of_container(self, url: str) -> Lent:
        """ECS, or EKS Pod Identity."""
        headers = {}
        if "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in self._env:
            headers["Authorization"] = _text_of(self._env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
        elif "AWS_CONTAINER_AUTHORIZATION_TOKEN" in self._env:
            headers["Authorization"] = self._env["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
        answer = ask("GET", url, headers, timeout_s=TIMEOUT_S, is_direct=True)
        return _of_document(answer, "the role of the container")

    def _of_instance(self) -> Lent:
        what, path = "the role of the machine", "/latest/meta-data/iam/security-credentials/"
        try:
            token = _checked(
                self._ask_instance(
                    "PUT",
                    "/latest/api/token",
                    {"X-aws-ec2-metadata-token-ttl-seconds": INSTANCE_TOKEN_S},
                ),
                what,
            ).decode()
            headers = {"X-aws-ec2-metadata-token": token}
            role = _checked(self._ask_instance("GET", path, headers), what).decode().split()[0]
            return _of_document(self._ask_instance("GET", path + role, headers), what)
        except (NoAnswer, IndexError) as error:
            raise NoCredentials(
                "no credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set, nor "
                "has the container or the machine a role"
            ) from error

    def _ask_instance(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        url = self._instance + path
        return ask(method, url, headers, timeout_s=TIMEOUT_S, is_direct=True)


def service_url(service: str, region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{service}.{region}.{domain}/"


def _of_document(answer: Answer, what: str) -> Lent:
    try:
        said: dict[str, Any] = json.loads(_checked(answer, what))
    except ValueError as error:
        raise NoCredentials(f"{what}: the answer is no JSON") from error
    return _lent(lambda name: str(said.get(name, "")), "Token")


def _lent(value: Callable[[str], str], token: str) -> Lent:
    keys = Keys(value("AccessKeyId"), value("SecretAccessKey"), value(token))
    if not keys.access or not keys.secret:
        raise NoCredentials("an answer without keys")
    until = value("Expiration")
    try:
        return Lent(keys, datetime.fromisoformat(until).astimezone(UTC) if until else None)
    except ValueError as error:
        raise NoCredentials(f"keys until {until!r}, which is no time") from error


def _checked(answer: Answer, what: str) -> bytes:
    if answer.status != 200:
        raise NoCredentials(f"{what}: HTTP {answer.status}")
    return answer.body


def _between(text: str, name: str) -> str:
    """What stands in the first element of that name."""
    found = re.search(f"<{name}>([^<]*)</{name}>", text)
    return found[1] if found else ""


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise NoCredentials(f"{file}: {error.strerror or error}") from error
