"""What a request for a crawl must have, and when two are the same."""

from typing import get_args

import orjson
import pytest

from manyhands.api.crawls.model import MAX_SEEDS, CrawlRequest, DomainOrder, UrlStateName
from manyhands.api.intake import checked
from manyhands.api.problems import Problem
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.store.model import STATE_COUNTERS

CONTACT = {"contact": "me@example.org"}
SEEDS = {"seeds": ["https://example.org/"]}


def request(**members: object) -> CrawlRequest:
    return checked(CrawlRequest, orjson.dumps(CONTACT | members), "body")


@pytest.mark.parametrize(
    "members", [SEEDS, {"seed_file": "seeds.txt"}, {"more_seeds": True}, SEEDS | {"labels": {}}]
)
def test_seeds_come_with_it_from_a_file_or_later(members):
    assert isinstance(request(**members), CrawlRequest)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "there are no seeds"),
        ({"seeds": []}, "there are no seeds"),
        ({"seed_file": "seeds.txt", "more_seeds": True}, "not both"),
        ({"seed_file": "../seeds.txt"}, "without a path"),
        (SEEDS | {"contact": "nobody"}, "e-mail"),
        (SEEDS | {"labels": {"a": "ä" * 2048}}, "4096 bytes together at most, not 4097"),
        (SEEDS | {"labels": {str(n): "" for n in range(33)}}, "at most 32"),
        (SEEDS | {"limits": {"pages": "5"}}, "valid integer"),
        (SEEDS | {"limits": {"pages": 0}}, "greater than"),
        (SEEDS | {"limits": {"pages": 2**63}}, "less than"),
        (SEEDS | {"more_seeds": "true"}, "valid boolean"),
        (SEEDS | {"depth": 5}, "Extra inputs"),
        ({"seeds": ["x"] * (MAX_SEEDS + 1)}, "at most 10000"),
    ],
)
def test_a_request_that_is_not_in_order_is_refused(members, said):
    with pytest.raises(Problem) as caught:
        request(**members)
    assert caught.value.status == 422
    assert said in caught.value.detail


def test_a_duration_without_end_is_no_duration():
    body = b'{"contact": "me@example.org", "more_seeds": true, "limits": {"duration_s": 1e999}}'
    with pytest.raises(Problem):
        checked(CrawlRequest, body, "body")


def test_of_very_many_wrong_seeds_the_answer_stays_short():
    with pytest.raises(Problem) as caught:
        request(seeds=[5] * MAX_SEEDS)
    assert len(caught.value.more["errors"]) == 100


def test_what_the_state_store_keeps_has_no_seeds():
    spec = request(**SEEDS, scope={"within": "anywhere"}, labels={"a": "b"}).spec()
    assert type(spec) is CrawlSpec
    assert spec.scope.within == "anywhere"
    assert spec.labels == {"a": "b"}


def test_two_requests_that_mean_the_same_have_one_fingerprint():
    one = checked(
        CrawlRequest, b'{"contact": "me@example.org", "seeds": ["https://a.example/"]}', "body"
    )
    same = checked(
        CrawlRequest,
        b'{ "seeds":["https://a.example/"],"more_seeds":false,"contact":"me@example.org"}',
        "body",
    )
    other = request(seeds=["https://b.example/"])
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_the_names_of_url_states_are_those_of_the_store_that_a_crawl_has():
    assert (*get_args(UrlStateName), "same") == STATE_COUNTERS


def test_an_order_may_be_empty():
    assert checked(DomainOrder, b"{}", "body") == DomainOrder(delay_s=None, is_blocked=False)
    with pytest.raises(Problem):
        checked(DomainOrder, b'{"delay_s": -1}', "body")
