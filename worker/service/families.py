"""Makes the metric families of a process. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from manyhands.shared.histogram import Histogram
from manyhands.worker.service.link import Family, Sample

# Upper bounds of the durations' buckets, in seconds.
DURATION_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)


def family(
    name: str, kind: str, text: str, *label_names: str, bounds: Sequence[float] = ()
) -> Family:
    """One without samples: `filled` makes copies with them."""
    return Family(f"manyhands_worker_{name}", kind, text, list(label_names), [], list(bounds))


def filled(empty: Family, samples: list[Sample]) -> Family:
    return msgspec.structs.replace(empty, samples=samples)


def single(empty: Family, value: float) -> Family:
    return filled(empty, [Sample([], value)])


def of_each(
    things: Mapping[tuple[str, ...], object], *families: tuple[Family, str]
) -> Iterable[Family]:
    """A sample of each thing in each family: the attribute of that name, unless it is None. The
    keys are the labels' values."""
    for made, field in families:
        values = ((labels, getattr(thing, field)) for labels, thing in things.items())
        yield filled(
            made, [Sample([*labels], value) for labels, value in values if value is not None]
        )


def of_histogram(labels: list[str], histogram: Histogram) -> Sample:
    """A copy: the histogram goes on counting."""
    return Sample(labels, histogram.sum, list(histogram.buckets))
