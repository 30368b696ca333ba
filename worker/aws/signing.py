"""AWS Signature Version 4, for a request with headers and a body. Pure.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"


class Keys(NamedTuple):
    """`token` goes with keys that are lent for a while; empty: they are for good."""

    access: str
    secret: str
    token: str = ""


def signed(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: Keys,
    region: str,
    service: str,
    at: datetime,
) -> dict[str, str]:
    """The headers with those of the signature. `at` is in UTC. The path of the URL is /; its query,
    if any, has its parameters in order and is encoded already."""
    parts = urlsplit(url)
    time, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
    sent = {**headers, "Host": parts.netloc, "X-Amz-Date": time}
    if keys.token:
        sent["X-Amz-Security-Token"] = keys.token
    canonical = {name.lower(): " ".join(value.split()) for name, value in sorted_by_name(sent)}
    names = ";".join(canonical)
    lines = [f"{name}:{value}\n" for name, value in canonical.items()]
    request = "\n".join(
        (method, quote(parts.path or "/"), parts.query, "".join(lines), names, _digest(body))
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    to_sign = "\n".join((ALGORITHM, time, scope, _digest(request.encode())))
    key = f"AWS4{keys.secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = _mac(key, part)
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access}/{scope}, SignedHeaders={names}, "
        f"Signature={_mac(key, to_sign).hex()}"
    )
    return sent


def sorted_by_name(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(headers.items(), key=lambda header: header[0].lower())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
