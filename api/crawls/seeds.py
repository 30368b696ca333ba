"""Seeds: checked, in their canonical form, and grouped by the shard of their domain. Pure."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from manyhands.api.intake import decode
from manyhands.api.problems import Problem, bad_request, unprocessable
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.urls import Url, parse_url, registrable_domain, shard_of_domain

# Errors reported for one request.
MAX_ERRORS = 100


class Seed(NamedTuple):
    url: str
    domain: str

    @property
    def size_bytes(self) -> int:
        return len(self.url)


class SeedLine(msgspec.Struct, forbid_unknown_fields=True):
    url: str


_decode_line = msgspec.json.Decoder(SeedLine).decode


def read_seed(text: str, rule: AddressRule) -> Seed:
    """Raises InvalidUrl, also for a host that no worker will fetch from."""
    url = parse_url(text)
    if not (rule.allows(url.host) if url.is_address else rule.may_allow(url.host)):
        raise InvalidUrl(
            f"{url.host} is in a private network, where nothing is fetched unless ALLOW_NETS of "
            "the API and of the workers names it"
        )
    return Seed(url.text, registrable_domain(url.host))


def check_seeds(texts: Sequence[str], rule: AddressRule) -> list[Seed]:
    """Each once. Raises Problem if any of them is invalid."""
    seeds: dict[str, Seed] = {}
    errors: list[dict[str, Any]] = []
    refused = 0
    for index, text in enumerate(texts):
        try:
            seed = read_seed(text, rule)
            seeds[seed.url] = seed
        except InvalidUrl as error:
            refused += 1
            if refused <= MAX_ERRORS:
                errors.append({"index": index, "field": f"seeds.{index}", "detail": str(error)})
    if refused:
        raise unprocessable(
            f"{refused} of {len(texts)} seeds are not in order: nothing was taken",
            field=errors[0]["field"],
            errors=errors,
        )
    return list(seeds.values())


def urls_among(texts: Iterable[str]) -> Iterator[Url]:
    """Without those that are not URLs."""
    for text in texts:
        with contextlib.suppress(InvalidUrl):
            yield parse_url(text)


def by_shard(seeds: Iterable[Seed], shards: int) -> dict[int, list[str]]:
    groups: dict[int, list[str]] = {}
    for seed in seeds:
        groups.setdefault(shard_of_domain(seed.domain, shards), []).append(seed.url)
    return groups


def plain_line(line: bytes, rule: AddressRule) -> Seed:
    """A URL. Raises Problem."""
    try:
        return _checked(line.decode(), rule)
    except UnicodeDecodeError:
        raise bad_request("the line is not UTF-8") from None


def json_line(line: bytes, rule: AddressRule) -> Seed:
    """{"url": …}. Raises Problem."""
    return _checked(decode(_decode_line, line).url, rule)


def _checked(text: str, rule: AddressRule) -> Seed:
    try:
        return read_seed(text, rule)
    except InvalidUrl as error:
        raise Problem(422, str(error), {"field": "url"}) from None
