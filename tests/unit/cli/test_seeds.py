import pytest

from manyhands.cli.seeds import Found, UsageError, read_urls

PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"


def test_urls_are_read_in_their_canonical_form():
    assert [url.text for url in read_urls(["HTTPS://Example.ORG"])] == ["https://example.org/"]


def test_a_url_without_a_scheme_gets_a_hint():
    with pytest.raises(UsageError, match=r"did you mean https://example\.org/a \?"):
        read_urls(["example.org/a"])


@pytest.mark.parametrize("text", ["ftp://example.org", "https://", "no url at all"])
def test_what_is_no_url_is_refused_without_a_hint(text):
    with pytest.raises(UsageError) as caught:
        read_urls([text])
    assert "is not a URL" in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_hosts_that_are_all_missing_are_a_problem():
    found = Found({"nope.example": [], "neither.example": []})
    problem = found.problem(are_private_allowed=False)
    assert problem == "host not found: nope.example, neither.example"


def test_one_host_that_is_there_is_enough():
    found = Found({"nope.example": [], "there.example": [PUBLIC]})
    assert found.problem(are_private_allowed=False) is None
    assert found.missing == ["nope.example"]


def test_a_private_address_needs_leave_and_the_error_says_how():
    found = Found({"localhost": ["::1", PRIVATE]})
    assert "ALLOW_NETS=127.0.0.0/8" in (found.problem(are_private_allowed=False) or "")
    assert found.problem(are_private_allowed=True) is None


def test_no_hosts_are_no_problem():
    assert Found({}).problem(are_private_allowed=False) is None
