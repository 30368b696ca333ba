"""Seeds: which are taken, and to which shard they go."""

from ipaddress import ip_network

import pytest

from manyhands.api.crawls.seeds import (
    MAX_ERRORS,
    by_shard,
    check_seeds,
    json_line,
    plain_line,
    read_seed,
    urls_among,
)
from manyhands.api.problems import Problem
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.urls import shard_of_domain

PUBLIC = AddressRule()


def test_seeds_are_canonical_and_each_is_there_once():
    seeds = check_seeds(
        ["HTTPS://Example.org", "https://example.org/", "http://b.example.org/a"], PUBLIC
    )
    assert [seed.url for seed in seeds] == ["https://example.org/", "http://b.example.org/a"]
    assert {seed.domain for seed in seeds} == {"example.org"}


def test_one_that_is_not_in_order_refuses_them_all_and_is_named():
    with pytest.raises(Problem) as caught:
        check_seeds(["https://example.org/", "ftp://example.org/", "x"], PUBLIC)
    problem = caught.value
    assert (problem.status, problem.more["field"]) == (422, "seeds.1")
    assert "2 of 3 seeds" in problem.detail
    assert [error["index"] for error in problem.more["errors"]] == [1, 2]
    assert "ftp" in problem.more["errors"][0]["detail"]


def test_of_very_many_faults_all_are_counted_and_the_first_are_told():
    with pytest.raises(Problem) as caught:
        check_seeds(["x"] * (MAX_ERRORS + 50), PUBLIC)
    assert len(caught.value.more["errors"]) == MAX_ERRORS
    assert f"{MAX_ERRORS + 50} of" in caught.value.detail


def test_a_domain_s_seeds_go_to_its_shard_together():
    seeds = check_seeds(
        ["https://a.example.org/", "https://b.example.org/", "https://example.com/"], PUBLIC
    )
    groups = by_shard(seeds, 64)
    assert groups[shard_of_domain("example.org", 64)] == [
        "https://a.example.org/",
        "https://b.example.org/",
    ]
    assert groups[shard_of_domain("example.com", 64)] == ["https://example.com/"]
    assert by_shard(seeds, 1) == {0: [seed.url for seed in seeds]}


def test_a_line_is_a_url_or_an_object_with_one():
    expected = read_seed("https://example.org/", PUBLIC)
    assert plain_line(b"https://Example.org", PUBLIC) == expected
    assert json_line(b'{"url": "https://Example.org"}', PUBLIC) == expected


@pytest.mark.parametrize(
    ("read_line", "line", "status"),
    [
        (plain_line, b"nowhere", 422),
        (plain_line, b"https://\xff/", 400),
        (json_line, b'{"url": "nowhere"}', 422),
        (json_line, b'{"url": 5}', 422),
        (json_line, b'{"url": "https://example.org/", "depth": 1}', 422),
        (json_line, b"https://example.org/", 400),
    ],
)
def test_a_line_that_is_none_is_refused(read_line, line, status):
    with pytest.raises(Problem) as caught:
        read_line(line, PUBLIC)
    assert caught.value.status == status


def test_the_urls_among_texts_are_found():
    assert [url.host for url in urls_among(["x", "http://a.example/", ""])] == ["a.example"]


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://localhost/",
        "http://www.localhost:8000/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
    ],
)
def test_a_seed_that_no_worker_would_fetch_is_refused_with_the_reason(url):
    with pytest.raises(Problem, match="private network") as caught:
        plain_line(url.encode(), PUBLIC)
    assert "ALLOW_NETS" in caught.value.detail
    everywhere = AddressRule([ip_network("0.0.0.0/0"), ip_network("::/0")])
    assert plain_line(url.encode(), everywhere).url.startswith("http://")


@pytest.mark.parametrize(
    "url", ["http://93.184.216.34/", "http://localhost.example/", "http://intranet/"]
)
def test_other_names_are_left_to_the_workers(url):
    assert plain_line(url.encode(), PUBLIC).url == url
