"""Lists as PostgreSQL reads arrays: texts like `{1,2,3}`. psycopg writes them item by item, which
takes as long as all the rest of an admission does. Pure."""

from collections.abc import Iterable, Sequence

from manyhands.shared.crawl.store.model import KEY_BYTES


def numbers(values: Iterable[float]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def uuids(keys: Iterable[bytes]) -> str:
    return "{" + b"".join(keys).hex(",", KEY_BYTES) + "}"


def texts(values: Sequence[str]) -> str:
    if not values:
        return "{}"
    escaped = [value.replace("\\", r"\\").replace('"', r"\"") for value in values]
    return '{"' + '","'.join(escaped) + '"}'
