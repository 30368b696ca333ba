"""A database by its URL: what libpq is told, and what people are shown."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.errors import ConfigError

URL = "postgresql://me:p%40ss@db.example:5433/crawls"


def test_the_schema_is_ours_and_the_rest_is_libpqs():
    place = parse_place(f"{URL}?sslmode=verify-full&schema=other")
    given = conninfo_to_dict(place.conninfo)
    assert place.schema == "other"
    assert (given["host"], given["port"], given["dbname"]) == ("db.example", "5433", "crawls")
    assert (given["password"], given["sslmode"]) == ("p@ss", "verify-full")
    assert parse_place(URL).schema == "manyhands"


def test_a_host_that_was_cut_off_is_noticed_unless_the_url_says_otherwise():
    assert conninfo_to_dict(parse_place(URL).conninfo)["tcp_user_timeout"] == "5000"
    patient = parse_place(f"{URL}?tcp_user_timeout=60000&connect_timeout=60")
    given = conninfo_to_dict(patient.conninfo)
    assert (given["tcp_user_timeout"], given["connect_timeout"]) == ("60000", "60")


def test_of_several_hosts_that_which_takes_writes_is_wanted():
    several = conninfo_to_dict(parse_place("postgresql://me@a,b:5433/db").conninfo)
    assert several["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in conninfo_to_dict(parse_place(URL).conninfo)


@pytest.mark.parametrize("schema", ["", "Upper", "a b", "x;drop", "a" * 60])
def test_a_schema_that_would_need_quotes_is_refused(schema):
    with pytest.raises(ConfigError, match="schema"):
        parse_place(f"{URL}?schema={schema}")


def test_nothing_shows_the_password():
    place = parse_place(f"{URL}?sslpassword=hidden")
    for text in (repr(place), place.shown):
        assert "p@ss" not in text
        assert "p%40ss" not in text
        assert "hidden" not in text


def test_locks_are_named_after_schema_and_shard():
    keys = {
        parse_place(f"{URL}?schema={schema}").lock_key("shard", 1, shard)
        for schema in ("one", "two")
        for shard in range(100)
    }
    assert len(keys) == 200
    assert all(-(1 << 63) <= key < 1 << 63 for key in keys)
