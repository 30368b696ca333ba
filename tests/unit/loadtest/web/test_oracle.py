"""What a crawl of the synthetic web missed, and what it had no business with."""

from loadtest.web.oracle import coverage
from loadtest.web.synthetic_web import Expected, WebSpec, host_address, host_name
from manyhands.shared.urls import registrable_domain
from tests.support.visits import HOST, robots, visit

PERFECT = {
    expected.url: expected
    for expected in (
        Expected(f"http://{HOST}/", "must", "done", "page"),
        Expected(f"http://{HOST}/a", "must", "done", "page"),
        Expected(f"http://{HOST}/private/1", "never", "disallowed", "private"),
        Expected(f"http://{HOST}/calendar/1", "may", "done", "calendar"),
    )
}


def test_a_crawl_of_all_and_no_more_is_exact_whatever_it_does_with_traps():
    wanted = [robots(), visit("/", 1.0), visit("/a", 2.0)]
    assert coverage(PERFECT, wanted).is_exact
    result = coverage(PERFECT, [*wanted, visit("/calendar/1", 3.0)])
    assert result.is_exact
    assert str(result) == "2 of 2 URLs"


def test_what_was_missed_is_named():
    result = coverage(PERFECT, [robots(), visit("/", 1.0)])
    assert not result.is_exact
    assert result.missed == [f"http://{HOST}/a"]
    assert str(result) == f"1 of 2 URLs; 1 missed, such as http://{HOST}/a"


def test_what_is_forbidden_or_does_not_exist_is_unwanted():
    visits = [visit(path, 1.0) for path in ("/", "/a", "/private/1", "/nothing")]
    result = coverage(PERFECT, visits)
    assert not result.is_exact
    assert result.unwanted == [f"http://{HOST}/nothing", f"http://{HOST}/private/1"]


def test_hosts_are_grouped_into_domains_of_three_and_of_one():
    domains = [registrable_domain(host_name(host)) for host in range(8)]
    assert domains == [
        *["site0.test"] * 3,
        "site1.test",
        *["site2.test"] * 3,
        "site3.test",
    ]


def test_every_host_has_an_address_of_its_own():
    addresses = {host_address(host) for host in range(70_000)}
    assert len(addresses) == 70_000
    assert "127.0.0.1" not in addresses


def test_what_is_not_said_is_left_to_the_profile():
    names = {argument.partition("=")[0] for argument in WebSpec().arguments()}
    assert "-size" not in names
    assert "-size=5000" in WebSpec(size_bytes=5000).arguments()
