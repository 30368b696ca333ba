"""Who comes in: by origin, host, key and scope, before anything of the request is read."""

from typing import Any

import pytest

from manyhands.api.guard import ANYBODY, Guard, RequestHeaders, needed_scope, read_headers
from manyhands.api.keys import Keys, Scope, new_key, parse_keys
from manyhands.api.problems import Problem

HOST = "api.example:3000"


def locked(scopes: str = "ingest+read+admin") -> tuple[Guard, bytes]:
    """A guard with one key, and the key."""
    secret, entry = new_key("ops", scopes)
    return Guard(parse_keys(entry, 0.0, 0.0), "127.0.0.1"), secret.encode()


def unlocked(*names: str) -> Guard:
    return Guard(Keys([]), "127.0.0.1", names)


def request(path: str = "/jobs/add", method: str = "POST") -> dict[str, Any]:
    return {"path": path, "method": method}


def refused(guard: Guard, visit: RequestHeaders, **which: str) -> Problem:
    with pytest.raises(Problem) as caught:
        guard.admit(request(**which), visit)
    return caught.value


# Headers


def test_the_headers_that_matter_are_read():
    visit = read_headers(
        [
            (b"host", b"h:1"),
            (b"origin", b"http://h:1"),
            (b"sec-fetch-site", b"same-origin"),
            (b"x-api-key", b"secret"),
            (b"content-type", b"Application/X-NDJSON; charset=utf-8"),
            (b"content-encoding", b" GZIP "),
            (b"content-length", b"12"),
            (b"x-unknown", b"\xff"),
        ]
    )
    assert visit == RequestHeaders(
        origin="http://h:1",
        fetch_site="same-origin",
        host="h:1",
        secret=b"secret",
        content_type="application/x-ndjson",
        content_encoding="gzip",
        content_length=12,
    )


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        (b"Bearer abc", b"abc"),
        (b"bearer   abc ", b"abc"),
        (b"Basic abc", b""),
        (b"Bearerabc", b""),
        (b"", b""),
    ],
)
def test_a_bearer_token_is_a_key(value, secret):
    assert read_headers([(b"authorization", value)]).secret == secret


@pytest.mark.parametrize("value", [b"", b"-1", b"+1", b"1.0", b"0x10", b"1, 1", "²".encode()])
def test_a_length_that_is_none_is_not_believed(value):
    assert read_headers([(b"content-length", value)]).content_length is None


# Origins


@pytest.mark.parametrize(
    ("origin", "fetch_site", "is_let_in"),
    [
        ("", "", True),
        ("", "none", True),
        ("", "same-origin", True),
        ("http://api.example:3000", "", True),
        ("http://API.example:3000", "same-origin", True),
        # A proxy in front speaks TLS.
        ("https://api.example:3000", "same-origin", True),
        ("", "cross-site", False),
        ("", "same-site", False),
        ("null", "", False),
        ("http://evil.example", "", False),
        ("http://evil.example", "same-origin", False),
        ("http://api.example", "", False),
        ("http://api.example:3001", "", False),
        ("http://api.example:3000.evil.example", "", False),
        ("http://evil.example/api.example:3000", "", False),
        ("http://api.example:3000", "cross-site", False),
        ("api.example:3000", "", False),
        ("file://", "", False),
    ],
)
@pytest.mark.parametrize(
    "which",
    [
        {"path": "/jobs/add", "method": "POST"},
        {"path": "/stats", "method": "GET"},
        {"path": "/healthz", "method": "GET"},
        {"path": "/jobs", "method": "OPTIONS"},
    ],
)
def test_a_page_of_another_origin_is_refused_even_with_a_key(origin, fetch_site, is_let_in, which):
    guard, secret = locked()
    visit = RequestHeaders(origin=origin, fetch_site=fetch_site, host=HOST, secret=secret)
    if is_let_in:
        guard.admit(request(**which), visit)
    else:
        problem = refused(guard, visit, **which)
        assert (problem.status, "origins" in problem.detail) == (403, True)


# Hosts


@pytest.mark.parametrize(
    ("host", "is_let_in"),
    [
        ("localhost", True),
        ("localhost:3000", True),
        ("127.0.0.1:3000", True),
        ("127.8.9.10", True),
        ("[::1]:3000", True),
        ("LOCALHOST:3000", True),
        ("", False),
        ("evil.example", False),
        ("evil.example:3000", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@localhost", True),  # the same host to any reader of it
        ("10.0.0.1", False),
        ("[::1", False),
        ("[::ffff:10.0.0.1]", False),
        ("0.0.0.0", False),
        ("2130706433", False),
        ("local\x00host", False),
    ],
)
def test_without_keys_only_names_of_this_machine_are_served(host, is_let_in):
    visit = RequestHeaders(host=host)
    if is_let_in:
        assert unlocked().admit(request(), visit).scopes == frozenset(Scope)
    else:
        problem = refused(unlocked(), visit)
        assert (problem.status, "API_KEYS" in problem.detail) == (403, True)
        assert problem.body()


def test_without_keys_the_names_that_an_operator_gave_are_served_too():
    visit = RequestHeaders(host="api-service:3000")
    assert unlocked("api-service").admit(request(), visit).scopes == frozenset(Scope)
    assert "API_HOSTS" in refused(unlocked("another"), visit).detail


def test_with_keys_the_service_answers_to_any_name():
    guard, secret = locked()
    assert (
        guard.admit(request(), RequestHeaders(host="anything.example", secret=secret)).name == "ops"
    )


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version", "/metrics"])
def test_probes_and_scrapes_come_under_any_name(path):
    assert (
        unlocked().admit(request(path, "GET"), RequestHeaders(host="api-service:3000")) is ANYBODY
    )


def test_a_long_host_is_not_repeated_in_full():
    assert len(refused(unlocked(), RequestHeaders(host="x" * 10_000)).detail) < 300


# Keys and scopes


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version"])
def test_a_probe_needs_no_key(path):
    assert locked()[0].admit(request(path, "GET"), RequestHeaders(host=HOST)) is ANYBODY


@pytest.mark.parametrize("path", ["/metrics", "/stats", "/openapi.json", "/nowhere", "/healthz/x"])
def test_everything_else_does(path):
    guard, _ = locked()
    problem = refused(guard, RequestHeaders(host=HOST), path=path, method="GET")
    assert problem.status == 401
    assert problem.headers["www-authenticate"].startswith("Bearer")
    assert "needed" in problem.detail


def test_a_key_that_is_not_known_is_refused_and_not_repeated():
    problem = refused(locked()[0], RequestHeaders(host=HOST, secret=b"mh_wrong"))
    assert (problem.status, "unknown" in problem.detail) == (401, True)
    assert "mh_wrong" not in problem.detail


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/jobs/add", "ingest"),
        ("POST", "/jobs", "ingest"),
        ("PUT", "/jobs", "ingest"),
        ("GET", "/jobs/0123456789", "read"),
        ("GET", "/queues", "read"),
        ("HEAD", "/queues", "read"),
        ("OPTIONS", "/jobs", "read"),
        ("GET", "/stats", "read"),
        ("GET", "/metrics", "read"),
        ("GET", "/openapi.json", "read"),
        ("GET", "/sets/dead", "read"),
        ("POST", "/queues/default/clear", "admin"),
        ("POST", "/crawls", "ingest"),
        ("POST", "/crawls/dry-run", "ingest"),
        ("POST", "/crawls/7/seeds", "ingest"),
        ("GET", "/crawls/7", "read"),
        ("GET", "/domains", "read"),
        ("POST", "/crawls/7/cancel", "admin"),
        ("POST", "/crawls/7/pause/seeds", "admin"),
        ("POST", "/crawls/7/seeds/x", "admin"),
        ("PUT", "/crawls/7/domains/example.org", "admin"),
        ("DELETE", "/crawls/7/domains/example.org/queued", "admin"),
        ("PUT", "/domains/example.org", "admin"),
        ("POST", "/sets/dead/requeue", "admin"),
        ("DELETE", "/jobs-not", "admin"),
        ("POST", "/jobsx", "admin"),
        ("POST", "/", "admin"),
    ],
)
def test_each_route_needs_its_scope(method, path, scope):
    assert needed_scope(method, path) == scope
    for granted in ("ingest", "read", "admin"):
        guard, secret = locked(granted)
        visit = RequestHeaders(host=HOST, secret=secret)
        if granted == scope:
            assert guard.admit(request(path, method), visit).name == "ops"
        else:
            problem = refused(guard, visit, path=path, method=method)
            assert (problem.status, problem.more) == (403, {"scope": scope})


def test_a_guard_says_whether_it_has_keys():
    assert locked()[0].has_keys
    assert not unlocked().has_keys
