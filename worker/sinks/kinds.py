"""From SINKS to sinks: which kind a URL names, ours or one that another package brings.

Your own package adds a kind with an entry point of the group `manyhands.sinks`: its name is the
scheme of the URLs, and it points to a function that makes a `Sink` from a URL.
"""

from collections.abc import Callable, Collection, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from manyhands.shared.errors import ConfigError
from manyhands.shared.extras import import_extra
from manyhands.worker.records import Capture, PageRecord, PlainRecord
from manyhands.worker.sinks.protocol import Sink

ENTRY_POINTS = "manyhands.sinks"
# By scheme, up to a +: module, class, and the extra that installs what it needs.
OWN = {
    "jsonl": ("manyhands.worker.sinks.files.jsonl", "JsonlSink", "worker"),
    "warc": ("manyhands.worker.sinks.files.warc", "WarcSink", "warc"),
    "parquet": ("manyhands.worker.sinks.files.parquet", "ParquetSink", "parquet"),
    "markdown": ("manyhands.worker.sinks.files.markdown", "MarkdownSink", "worker"),
    "postgres": ("manyhands.worker.sinks.servers.postgres", "PostgresSink", "postgres"),
    "elasticsearch": (
        "manyhands.worker.sinks.servers.elasticsearch",
        "ElasticsearchSink",
        "elasticsearch",
    ),
    "kafka": ("manyhands.worker.sinks.servers.kafka", "KafkaSink", "kafka"),
}
# Whatever a handler emits, and what is captured where pages are fetched.
EMITTED = frozenset({PageRecord, PlainRecord})
CAPTURED = frozenset({Capture})

MakeSink = Callable[[str], Sink]


def make_sinks(urls: Sequence[str], kinds: Collection[type]) -> list[Sink]:
    """Those that want any of these kinds of records. Raises ConfigError with one clear line."""
    sinks = [_maker(url)(url) for url in urls]
    names = [sink.name for sink in sinks]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"SINKS names {name} twice")
    return [sink for sink in sinks if sink.kinds & set(kinds)]


def _maker(url: str) -> MakeSink:
    scheme = url.partition(":")[0]
    kind = scheme.partition("+")[0]
    if kind in OWN:
        return _own(kind)
    foreign = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if kind in foreign:
        return _foreign(foreign[kind])
    known = ", ".join([*OWN, *foreign])
    raise ConfigError(f"SINKS: unknown kind of sink {kind!r} (known: {known})")


def _own(kind: str) -> MakeSink:
    module, name, extra = OWN[kind]
    return cast("MakeSink", getattr(import_extra(module, f"SINKS: {kind}", extra), name))


def _foreign(point: EntryPoint) -> MakeSink:
    try:
        return cast("MakeSink", point.load())
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"SINKS: {point.name} ({point.value}): {error}") from error
