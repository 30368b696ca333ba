"""CloudWatch's embedded metric format: log lines that it turns into metrics. Pure.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from dataclasses import dataclass

import orjson

NAMESPACE = "CommonCrawlWorker"
# Kept by the second: a line every five seconds would otherwise become a point a minute.
STORAGE_RESOLUTION_S = 1
# CloudWatch refuses a longer value of a dimension.
LONGEST_DIMENSION = 1024


@dataclass(slots=True, frozen=True)
class StageLine:
    """One stage over one interval. `queue_depth` is None while the server does not report it."""

    stage: str
    process_type: str
    queue_depth: int | None
    active_workers: int
    jobs_per_second: float


def emf_line(line: StageLine, at: float) -> str:
    """One document, without its line end. `at` in seconds since 1970."""
    values: dict[str, float] = {
        "ActiveWorkers": line.active_workers,
        "JobsPerSecond": round(line.jobs_per_second, 3),
    }
    if line.queue_depth is not None:
        values["QueueDepth"] = line.queue_depth
    document = {
        "_aws": {
            "Timestamp": int(at * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [["Stage"], ["Stage", "process_type"]],
                    "Metrics": [_definition(name) for name in values],
                }
            ],
        },
        "Stage": line.stage[:LONGEST_DIMENSION],
        "process_type": line.process_type[:LONGEST_DIMENSION],
        **values,
    }
    return orjson.dumps(document).decode()


def _definition(name: str) -> dict[str, str | int]:
    unit = "Count/Second" if name == "JobsPerSecond" else "Count"
    return {"Name": name, "Unit": unit, "StorageResolution": STORAGE_RESOLUTION_S}
