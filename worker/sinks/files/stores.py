"""From a place to where its files are published."""

import importlib
from typing import cast

from manyhands.shared.errors import ConfigError
from manyhands.worker.sinks.files.places import Place
from manyhands.worker.sinks.files.publishing import Directory, Store

# Not imported above: only who writes to S3 needs the library.
_S3 = "manyhands.worker.sinks.files.s3"


def store_of(place: Place) -> Store:
    """Raises ConfigError when it can never be used, anything else when it cannot be now."""
    if place.bucket is None:
        return Directory(place.path)
    try:
        s3 = importlib.import_module(_S3)
    except ImportError as error:
        raise ConfigError(
            f"SINKS: {place.name} needs {error.name}, which is not installed: pip install '.[s3]'"
        ) from error
    return cast("Store", s3.BucketStore.open(place.name, place.bucket))
