"""A password that is kept apart becomes part of its URL."""

import pytest

from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.settings.passwords import with_password


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("tcp://h", "tcp://:pw@h"),
        ("tcp+tls://h:7419", "tcp+tls://:pw@h:7419"),
        ("tcp://user@h", "tcp://user:pw@h"),
        ("tcp://:own@h", "tcp://:own@h"),
        ("tcp://:@h", "tcp://:@h"),
        ("postgresql://u@a:1,b:2/d?options=x@y", "postgresql://u:pw@a:1,b:2/d?options=x@y"),
        ("postgresql:///d", "postgresql://:pw@/d"),
        ("a/directory", "a/directory"),
    ],
)
def test_it_stands_before_the_host_unless_there_is_one(text, whole):
    assert with_password(text, "pw") == whole


def test_any_characters_survive():
    password = "/a b@c:d%e?f#g"
    assert parse_url(with_password("tcp://h:1", password)).password == password


def test_none_changes_nothing():
    assert with_password("tcp://h", "") == "tcp://h"
