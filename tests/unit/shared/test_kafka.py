"""A Kafka's URL, and what librdkafka is told of it."""

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.kafka import client_settings, kafka_place


def test_several_brokers_a_group_and_a_login():
    place = kafka_place("kafka+ssl://me:p%40ss@a:1,b,[::1]:3?group=g", "X")
    assert (place.brokers, place.group) == ("a:1,b:9092,[::1]:3", "g")
    assert (place.user, place.password, place.is_encrypted) == ("me", "p@ss", True)
    assert "p@ss" not in f"{place} {place!r}"


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("kafka://a", "PLAINTEXT"),
        ("kafka+ssl://a", "SSL"),
        ("kafka://u:p@a", "SASL_PLAINTEXT"),
        ("kafka+ssl://u:p@a", "SASL_SSL"),
    ],
)
def test_the_scheme_and_the_login_decide_on_the_protocol(url, protocol):
    settings = client_settings(kafka_place(url, "X"), "SCRAM-SHA-512", "/ca.pem")
    assert settings["security.protocol"] == protocol
    assert settings.get("sasl.mechanism") == ("SCRAM-SHA-512" if "SASL" in protocol else None)
    assert settings["ssl.ca.location"] == "/ca.pem"


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka://a:x",
        "kafka://a:70000",
        "kafka://a/topic",
        "tcp://a",
        "kafka://u:p/w@a?group=g",
        "kafka://a?group",
        "kafka://a?team=x",
    ],
)
def test_what_is_no_such_url_is_refused_without_its_password(url):
    with pytest.raises(ConfigError) as refused:
        kafka_place(url, "WORKER_SOURCE")
    assert "WORKER_SOURCE" in str(refused.value)
    assert "p/w" not in str(refused.value)
