"""What a crawl would do with a URL: the rules are those of the workers, told one by one."""

from manyhands.api.crawls.dry_run import DryRun
from manyhands.api.crawls.model import JudgedUrl
from manyhands.api.crawls.seeds import urls_among
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import ScopeSpec

SEED = "https://www.example.org/"
TAG = "9f03a1c2d4"


def judged(
    *urls: str,
    seeds: tuple[str, ...] = (SEED,),
    exclusions: tuple[str, ...] = (),
    blocked: tuple[str, ...] = (),
    **scope: object,
) -> list[JudgedUrl]:
    rules = Scope(ScopeSpec.model_validate(scope), Exclusions.parse(exclusions))
    return list(DryRun(rules, urls_among(seeds), TAG, 64, blocked).judge(urls))


def test_a_url_is_told_as_it_would_be_fetched_and_kept():
    (told,) = judged("HTTPS://WWW.Example.org:443/a/../b?utm_source=x&id=1#top")
    assert told.canonical == "https://www.example.org/b?utm_source=x&id=1"
    assert told.fingerprint == "https://www.example.org/b?id=1"
    assert told.key is not None and len(bytes.fromhex(told.key)) == 16
    assert told.domain == "example.org"
    assert told.shard is not None and told.queue == f"crawl.{TAG}.{told.shard:02}"
    assert (told.is_in, told.reason, told.duplicate_of) == (True, "", None)


def test_what_is_no_url_says_why():
    (told,) = judged("ftp://example.org/")
    assert (told.is_in, told.canonical, told.key) == (False, None, None)
    assert told.reason.startswith("no URL: ")


def test_a_second_url_of_one_page_is_a_duplicate():
    first, second, third = judged(
        "https://www.example.org/?b=2&a=1", "x", "https://www.example.org/?a=1&b=2&utm_medium=x"
    )
    assert (first.duplicate_of, second.duplicate_of, third.duplicate_of) == (None, None, 0)
    assert first.key == third.key


def test_hosts_and_domains_are_those_of_the_seeds():
    links = ("https://www.example.org/a", "https://b.example.org/", "https://example.com/")
    assert [told.is_in for told in judged(*links)] == [True, False, False]
    assert [told.is_in for told in judged(*links, within="domains")] == [True, True, False]
    assert [told.is_in for told in judged(*links, within="anywhere")] == [True, True, True]
    assert "no seed is on b.example.org" in judged(*links)[1].reason


def test_of_seeds_alone_no_link_is_followed():
    seed, link = judged(SEED, "https://www.example.org/a", within="seeds")
    assert (seed.is_in, link.is_in) == (True, False)


def test_each_rule_has_its_reason():
    reasons = [
        told.reason
        for told in judged(
            "https://www.example.org/private/a",
            "https://www.example.org/a.zip",
            "https://bad.example.com/",
            "https://blocked.example.net/",
            within="anywhere",
            skips_files=True,
            exclude=["*/private/*"],
            exclusions=("example.com",),
            blocked=("example.net",),
        )
    ]
    assert reasons == [
        "pattern",
        "trap: binary suffix",
        "excluded: example.com",
        "blocked by the operator",
    ]
