"""Whether a URL belongs to a crawl."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.scope import Scope, Verdict
from manyhands.shared.crawl.spec import ScopeSpec
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import HOSTS_REMEMBERED, parse_url


def judge(url: str, depth: int = 1, exclusions: str = "", **spec: Any) -> Verdict:
    scope = Scope(ScopeSpec(**spec), Exclusions.parse(exclusions.splitlines()))
    return scope.judge(parse_url(url), depth)


@pytest.mark.parametrize(
    ("within", "scope_name"),
    [("hosts", "www.example.co.uk"), ("domains", "example.co.uk"), ("anywhere", "")],
)
def test_what_depends_on_the_seeds_is_named(within, scope_name):
    verdict = judge("http://www.example.co.uk/", within=within)
    assert verdict == Verdict(True, "", scope_name)


@pytest.mark.parametrize("within", ["hosts", "domains", "listed", "anywhere"])
@pytest.mark.parametrize(
    "url", ["http://a.example/x", "http://b.example:81/", "http://deep.down.b.example/"]
)
def test_what_is_listed_needs_no_seed(within, url):
    verdict = judge(url, within=within, hosts=("A.example",), domains=("b.example",))
    assert verdict == Verdict(True, "", "")


@pytest.mark.parametrize(
    "url", ["http://www.a.example/", "http://notb.example/", "http://example/", "http://1.2.3.4/"]
)
def test_what_is_not_listed_is_out(url):
    verdict = judge(url, within="listed", hosts=("a.example",), domains=("b.example",))
    assert verdict == Verdict(False, "scope", "")


def test_seeds_alone_means_no_link_at_all():
    assert judge("http://a.example/", 0, within="seeds") == Verdict(True, "", "")
    assert judge("http://a.example/", 1, within="seeds", hosts=("a.example",)) == Verdict(
        False, "scope", ""
    )


def test_there_is_a_depth_at_which_it_ends():
    assert judge("http://a.example/", 3, max_depth=3).is_in
    assert judge("http://a.example/", 4, max_depth=3) == Verdict(False, "depth", "")
    assert judge("http://a.example/", 0, max_depth=0).is_in


@pytest.mark.parametrize(
    ("url", "is_in"),
    [
        ("http://a.example/docs/x", True),
        ("http://a.example/docs/old/x", False),
        ("http://a.example/blog/x", False),
    ],
)
def test_patterns_narrow_the_scope(url, is_in):
    verdict = judge(url, include=("*/docs/*", "*/manual/*"), exclude=("*/old/*",))
    assert (verdict.is_in, verdict.reason) == (is_in, "" if is_in else "pattern")


def test_traps_and_exclusions_say_which():
    assert judge("http://a.example/a/a/a").reason == "trap: repeated segment"
    assert judge("http://a.example/x.zip", skips_files=True).reason == "trap: binary suffix"
    assert judge("http://a.example/", exclusions="a.example").reason == "excluded: a.example"
    assert judge("http://a.example/x/", exclusions="*/x/*").reason == "excluded: */x/*"


def test_files_are_in_unless_the_crawl_skips_them():
    assert judge("http://a.example/x.zip").is_in


def test_an_exclusion_outweighs_a_list():
    verdict = judge("http://a.example/", hosts=("a.example",), exclusions="a.example")
    assert verdict == Verdict(False, "excluded: a.example", "")


@pytest.mark.parametrize("field", ["hosts", "domains"])
def test_a_name_that_is_none_is_refused_by_name(field):
    names = {field: ("a.example", "b c.example", "http://d.example/", "e.example:80")}
    with pytest.raises(ValueError, match=rf"{field}: .*'b c.example', 'http://d.*'e.example:80'"):
        Scope(ScopeSpec.model_validate(names), Exclusions())


@pytest.mark.parametrize("field", ["include", "exclude"])
def test_a_pattern_that_is_none_is_refused_by_name(field):
    with pytest.raises(ValueError, match=f"{field}: 'https://a.example'"):
        Scope(ScopeSpec.model_validate({field: ("https://a.example",)}), Exclusions())


def test_international_names_are_known_in_both_forms():
    for name in ("bücher.example", "xn--bcher-kva.example", "BÜCHER.example."):
        assert judge("http://bücher.example/", within="listed", hosts=(name,)).is_in


def test_addresses_can_be_listed():
    assert judge("http://0x7f.1/", within="listed", hosts=("127.0.0.1",)).is_in
    assert judge("http://[2001:db8::1]/", within="listed", hosts=("2001:db8:0::1",)).is_in


@given(
    st.text(max_size=40),
    st.integers(0, 30),
    st.sampled_from(["hosts", "domains", "seeds", "listed", "anywhere"]),
)
def test_any_url_gets_a_verdict(text, depth, within):
    scope = Scope(
        ScopeSpec(within=within, include=("*a*",), exclude=("*b",), domains=("a.example",)),
        Exclusions.parse(["c.example", "*d*"]),
    )
    for candidate in (f"http://{text}/", f"http://a.example/{text}"):
        try:
            url = parse_url(candidate)
        except InvalidUrl:
            continue
        verdict = scope.judge(url, depth)
        assert verdict.is_in is (verdict.reason == "")


def test_what_is_remembered_of_hosts_is_bounded():
    scope = Scope(ScopeSpec(), Exclusions())
    assert scope._of_host.cache_parameters()["maxsize"] == HOSTS_REMEMBERED
