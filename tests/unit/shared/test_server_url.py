"""URLs of sinks that are servers: read in full, told without the password."""

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.server_url import ServerUrl, server_url

EXAMPLE = "kafka://host:9092/topic"


def read(url: str) -> ServerUrl:
    return server_url(url, schemes=("kafka", "kafka+ssl"), default_port=9092, example=EXAMPLE)


def test_a_url_is_read_in_all_its_parts():
    url = read("kafka+ssl://b%40b:p%2Fw%3A%25@one.example:1,two.example/crawl?a=b&c=d")
    assert url.scheme == "kafka+ssl"
    assert url.hosts == (("one.example", 1), ("two.example", 9092))
    assert url.places == "one.example:1,two.example:9092"
    assert (url.user, url.password) == ("b@b", "p/w:%")
    assert (url.path, url.query) == ("crawl", "a=b&c=d")


def test_neither_its_name_nor_its_repr_has_the_password():
    url = read("kafka://bob:s3cret@host/crawl?password=s3cret")
    assert url.name == "kafka://host:9092/crawl"
    assert "s3cret" not in url.name


def test_its_repr_has_no_password():
    assert "s3cret" not in repr(read("kafka://bob:s3cret@host/crawl"))


@pytest.mark.parametrize(
    ("place", "hosts"),
    [
        ("[::1]:9", (("::1", 9),)),
        ("[::1]", (("::1", 9092),)),
        ("[::1],127.0.0.1:7", (("::1", 9092), ("127.0.0.1", 7))),
        ("user@host", (("host", 9092),)),
        # A password with a character that should have been escaped.
        ("user:pass@word@host:1", (("host", 1),)),
    ],
)
def test_hosts_are_names_and_addresses(place: str, hosts: tuple[tuple[str, int], ...]):
    assert read(f"kafka://{place}/topic").hosts == hosts


def test_an_address_is_named_with_its_brackets():
    assert read("kafka://[::1]/topic").name == "kafka://[::1]:9092/topic"


@pytest.mark.parametrize(
    "url",
    [
        "kafka:///topic",
        "kafka://",
        "kafka://one,/topic",
        "kafka://host:port/topic",
        "kafka://host:0/topic",
        "kafka://host:65536/topic",
        "kafka://[::1/topic",
        # The slash ends the host: what is left of the password looks like its port.
        "kafka://bob:s3cr/et@host/topic",
        "kafka://bob:12/s3cret@host",
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_quoting_it(url: str):
    with pytest.raises(ConfigError) as refused:
        read(url)
    assert str(refused.value) == (
        f"SINKS: a kafka URL cannot be read: use {EXAMPLE}, "
        "with special characters of the password URL-escaped"
    )


@pytest.mark.parametrize("url", ["kafka://host", "kafka://host/", "kafka://host/a/b"])
def test_a_url_without_one_name_behind_the_host_is_told(url: str):
    with pytest.raises(ConfigError, match="needs one name after the host"):
        read(url)


def test_another_scheme_is_told():
    with pytest.raises(ConfigError) as refused:
        read("kafka+tls://bob:s3cret@host/topic")
    assert str(refused.value) == (
        f"SINKS: kafka+tls: is not one of kafka, kafka+ssl: use {EXAMPLE}"
    )
