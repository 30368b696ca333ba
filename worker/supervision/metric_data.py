"""What PutMetricData is told: points, and requests with many of them in CloudWatch's query
protocol. Pure.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from manyhands.worker.supervision.emf import LONGEST_DIMENSION, NAMESPACE, STORAGE_RESOLUTION_S
from manyhands.worker.supervision.stage_summary import StageSummary

VERSION = "2010-08-01"
CONTENT_TYPE = "application/x-www-form-urlencoded; charset=utf-8"
# CloudWatch takes 1,000 in a request of at most a megabyte; one of ours is a third of a kilobyte.
MOST_IN_REQUEST = 500
# Codes of a refusal that ends by itself, or with other keys; anything else is about the points.
_THROTTLED = {"Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled"}
_ABOUT_KEYS = {
    *("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "AccessDenied"),
    *("AccessDeniedException", "SignatureDoesNotMatch", "IncompleteSignature", "OptInRequired"),
    *("RequestExpired", "UnrecognizedClientException", "MissingAuthenticationToken"),
}


class Point(NamedTuple):
    """`at` in seconds since 1970."""

    metric: str
    stage: str
    value: float
    at: float


class Refusal(NamedTuple):
    """`is_for_good`: these points are never taken. `is_about_keys`: others may help."""

    reason: str
    is_for_good: bool
    is_about_keys: bool


def points_of(stages: Iterable[StageSummary], at: float) -> list[Point]:
    """Two of each stage, over all processes of this service. Without a depth while the server does
    not report it."""
    active: dict[str, int] = {}
    depths: dict[str, int] = {}
    for stage in stages:
        active[stage.name] = active.get(stage.name, 0) + stage.active
        if stage.queue_depth is not None:
            depths[stage.name] = max(stage.queue_depth, depths.get(stage.name, 0))
    return [
        *(Point("QueueDepth", stage, depth, at) for stage, depth in depths.items()),
        *(Point("ActiveWorkers", stage, number, at) for stage, number in active.items()),
    ]


def request_body(points: Sequence[Point]) -> bytes:
    fields = {"Action": "PutMetricData", "Version": VERSION, "Namespace": NAMESPACE}
    for number, point in enumerate(points, start=1):
        datum = f"MetricData.member.{number}"
        fields |= {
            f"{datum}.MetricName": point.metric,
            f"{datum}.Dimensions.member.1.Name": "Stage",
            f"{datum}.Dimensions.member.1.Value": point.stage[:LONGEST_DIMENSION],
            f"{datum}.Timestamp": datetime.fromtimestamp(int(point.at), UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
            f"{datum}.Value": f"{point.value:g}" if point.value < 1e6 else str(int(point.value)),
            f"{datum}.Unit": "Count",
            f"{datum}.StorageResolution": str(STORAGE_RESOLUTION_S),
        }
    return urlencode(fields).encode()


def refusal_of(status: int, body: bytes) -> Refusal | None:
    """None: they were taken."""
    if 200 <= status < 300:
        return None
    text = body.decode("utf-8", "replace")
    code, message = _element(text, "Code"), _element(text, "Message")
    reason = f"{code}: {message}" if code else f"HTTP {status}"
    is_about_keys = code in _ABOUT_KEYS or (not code and status in (401, 403))
    ends = status >= 500 or status in (408, 429) or code in _THROTTLED
    return Refusal(reason[:300], not (ends or is_about_keys), is_about_keys)


def _element(text: str, name: str) -> str:
    found = re.search(f"<{name}>([^<]*)</{name}>", text)
    return found[1].strip() if found else ""
