"""The metrics of a Kafka source: how far each partition is, and what holds it up."""

from collections.abc import Iterable

from manyhands.worker.service.families import family, of_each, single
from manyhands.worker.service.link import Family
from manyhands.worker.source.kafka.done_map import METADATA_BYTES
from manyhands.worker.source.kafka.source import KafkaSource

LABELS = ("topic", "partition")
# Each with the attribute of a partition's view that it shows.
OF_PARTITION = tuple(
    (family(f"kafka_{name}", "gauge", text, *LABELS), attribute)
    for name, text, attribute in (
        ("lag", "Records that are not committed, to the end", "lag"),
        ("incomplete", "Records received and not done", "incomplete"),
        (
            "oldest_incomplete_seconds",
            "Since the record was written whose offset is committed next",
            "oldest_s",
        ),
        ("running", "Records whose jobs run", "running"),
        ("waiting", "Records here that wait for a slot or a time", "waiting"),
        ("paused", "1 while a partition is not read", "is_paused"),
        ("metadata_bytes", f"Of the last commit, {METADATA_BYTES} at most", "metadata_bytes"),
    )
)
ASSIGNED = family("kafka_assignments_total", "counter", "Partitions that came to this process")
DONE = family("kafka_done_total", "counter", "Records done, however")
FAILED = family("kafka_failed_total", "counter", "Records written elsewhere to be tried again")
DEAD = family("kafka_dead_total", "counter", "Records given up")
COMMITS = family("kafka_commits_total", "counter", "Commits that were answered")
COMMIT_ERRORS = family("kafka_commit_errors_total", "counter", "Commits that were refused")
PENDING = family("kafka_commits_pending", "gauge", "Partitions with a commit on its way")


def kafka_families(source: KafkaSource) -> Iterable[Family]:
    views: dict[tuple[str, ...], object] = {
        (view.topic, str(view.partition)): view for view in source.views()
    }
    yield from of_each(views, *OF_PARTITION)
    counts = source.counts
    yield single(ASSIGNED, counts.assigned)
    yield single(DONE, counts.done)
    yield single(FAILED, counts.failed)
    yield single(DEAD, counts.dead)
    yield single(COMMITS, counts.commits)
    yield single(COMMIT_ERRORS, counts.commit_errors)
    yield single(PENDING, source.uncommitted)
