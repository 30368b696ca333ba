"""Chooses the store in which a place's files are published."""

from typing import cast

from manyhands.shared.extras import import_extra
from manyhands.shared.sinks.places import Place
from manyhands.worker.sinks.files.publishing import Directory, Store

# Imported only when a sink writes to S3: nothing else needs the library.
_S3 = "manyhands.worker.sinks.files.s3"


def store_of(place: Place) -> Store:
    """Raises ConfigError when it can never be used, anything else when it cannot be now."""
    if place.bucket is None:
        return Directory(place.path)
    s3 = import_extra(_S3, f"SINKS: {place.name}", "s3")
    return cast("Store", s3.BucketStore.open(place.name, place.bucket))
