"""The metrics of a Kafka source: how far each partition is, and what holds it up."""

from collections.abc import Iterable

from manyhands.worker.service.families import family, of_each, single
from manyhands.worker.service.link import Family
from manyhands.worker.source.kafka.done_map import METADATA_BYTES
from manyhands.worker.source.kafka.source import KafkaSource

LABELS = ("topic", "partition")
LAG = family("kafka_lag", "gauge", "Records that are not committed, to the end", *LABELS)
INCOMPLETE = family("kafka_incomplete", "gauge", "Records received and not done", *LABELS)
OLDEST = family(
    "kafka_oldest_incomplete_seconds",
    "gauge",
    "Since the record was written whose offset is committed next",
    *LABELS,
)
RUNNING = family("kafka_running", "gauge", "Records whose jobs run", *LABELS)
WAITING = family("kafka_waiting", "gauge", "Records here that wait for a slot or a time", *LABELS)
PAUSED = family("kafka_paused", "gauge", "1 while a partition is not read", *LABELS)
METADATA = family(
    "kafka_metadata_bytes", "gauge", f"Of the last commit, {METADATA_BYTES} at most", *LABELS
)
ASSIGNED = family("kafka_assignments_total", "counter", "Partitions that came to this process")
DONE = family("kafka_done_total", "counter", "Records done, however")
FAILED = family("kafka_failed_total", "counter", "Records written elsewhere to be tried again")
DEAD = family("kafka_dead_total", "counter", "Records given up")
COMMITS = family("kafka_commits_total", "counter", "Commits that were answered")
COMMIT_ERRORS = family("kafka_commit_errors_total", "counter", "Commits that were refused")
PENDING = family("kafka_commits_pending", "gauge", "Partitions with a commit on its way")
FAMILIES = (
    *(LAG, INCOMPLETE, OLDEST, RUNNING, WAITING, PAUSED, METADATA, ASSIGNED),
    *(DONE, FAILED, DEAD, COMMITS, COMMIT_ERRORS, PENDING),
)


def kafka_families(source: KafkaSource) -> Iterable[Family]:
    yield from of_each(
        {(view.topic, str(view.partition)): view for view in source.views()},
        (LAG, "lag"),
        (INCOMPLETE, "incomplete"),
        (OLDEST, "oldest_s"),
        (RUNNING, "running"),
        (WAITING, "waiting"),
        (PAUSED, "is_paused"),
        (METADATA, "metadata_bytes"),
    )
    counts = source.counts
    yield single(ASSIGNED, counts.assigned)
    yield single(DONE, counts.done)
    yield single(FAILED, counts.failed)
    yield single(DEAD, counts.dead)
    yield single(COMMITS, counts.commits)
    yield single(COMMIT_ERRORS, counts.commit_errors)
    yield single(PENDING, source.uncommitted)
