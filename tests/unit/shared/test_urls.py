"""URLs: what is refused and why, the canonical form, and the shard of a domain."""

import re
import string
from urllib.parse import urljoin

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from manyhands.shared import urls
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import (
    MAX_URL_LENGTH,
    Links,
    parse_host,
    parse_url,
    registrable_domain,
    resolve_reference,
    shard_queue,
    shard_queues,
)


@pytest.mark.parametrize(
    ("given_text", "canonical"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.com/Path", "http://example.com/Path"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com:08080/", "http://example.com:8080/"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com/a#part", "http://example.com/a"),
        ("http://example.com?", "http://example.com/"),
        ("http://example.com?b=2&a=1#x?y", "http://example.com/?b=2&a=1"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/a/..", "http://example.com/"),
        ("http://example.com/a/b/.", "http://example.com/a/b/"),
        ("http://example.com/../../a", "http://example.com/a"),
        ("http://example.com/%2e%2E/a", "http://example.com/a"),
        ("http://example.com//a///b", "http://example.com//a///b"),
        ("http://example.com/%7euser/%c3%a4", "http://example.com/~user/%C3%A4"),
        ("http://example.com/ä b", "http://example.com/%C3%A4%20b"),
        ("http://example.com/100%/%zz", "http://example.com/100%25/%25zz"),
        ("http://example.com/%2F?q=%2f%26", "http://example.com/%2F?q=%2F%26"),
        ('http://example.com/<a>"', "http://example.com/%3Ca%3E%22"),
        ("http://example.com/?q[]=a|b{c}", "http://example.com/?q[]=a|b{c}"),
        ("http://example.com/?a\\b", "http://example.com/?a%5Cb"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
        ("http://xn--i-7iq.example/", "http://xn--i-7iq.example/"),
        ("http://example。com/", "http://example.com/"),
        ("http://my_blog.example.com/", "http://my_blog.example.com/"),
        ("http://localhost/", "http://localhost/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://134744072/", "http://8.8.8.8/"),
        ("http://0x8.010.2056/", "http://8.8.8.8/"),
        ("http://8.8.8.8./", "http://8.8.8.8/"),
        ("http://８.８.８.８/", "http://8.8.8.8/"),
        ("http://0x/", "http://0.0.0.0/"),
        ("http://[2001:DB8:0:0:0:0:0:1]/", "http://[2001:db8::1]/"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://[::ffff:8.8.8.8]/", "http://8.8.8.8/"),
        ("http://[::FFFF:808:808]/", "http://8.8.8.8/"),
    ],
)
def test_a_url_has_one_canonical_form(given_text, canonical):
    assert parse_url(given_text).text == canonical
    assert parse_url(canonical).text == canonical


def test_the_parts_are_what_a_connection_needs():
    url = parse_url("https://[2606:4700::1111]:8443/x")
    assert (url.scheme, url.host, url.port) == ("https", "2606:4700::1111", 8443)
    assert url.is_address
    name = parse_url("http://Example.com/")
    assert (name.host, name.port, name.is_address) == ("example.com", 80, False)
    assert str(name) == name.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "absolute"),
        ("example.com", "absolute"),
        ("example.com:80/x", "absolute"),
        ("//example.com/", "absolute"),
        ("/path", "absolute"),
        ("http:/example.com/", "absolute"),
        ("http:example.com", "absolute"),
        ("https:\\\\example.com", "absolute"),
        ("ftp://example.com/", "not ftp:"),
        ("file:///etc/passwd", "not file:"),
        ("javascript:alert(1)", "not javascript:"),
        ("data:text/html,x", "not data:"),
        ("gopher://127.0.0.1:25/", "not gopher:"),
        ("http://", "host"),
        ("http:///path", "host"),
        ("http://?q", "host"),
        ("http://:80/", "host"),
        ("http://./", "host name"),
        ("http://a..b/", "host name"),
        ("http://.example.com/", "host name"),
        ("http://example.com../", "host name"),
        ("http://exa mple.com/", "host name"),
        ("http://exa%6dple.com/", "host name"),
        ("http://%31%32%37.0.0.1/", "IPv4"),
        ("http://a,b/", "host name"),
        ("http://example.com\\@evil.example/", "credentials"),
        ("http://example.com\\evil/", "host name"),
        ("http://example.com/a\\b", "backslash"),
        ("http://user@example.com/", "credentials"),
        ("http://user:hunter2@example.com/", "credentials"),
        ("http://@example.com/", "credentials"),
        ("http://example.com:x/", "malformed"),
        ("http://example.com:-1/", "malformed"),
        ("http://example.com:+80/", "malformed"),
        ("http://example.com:８０/", "malformed"),
        ("http://example.com:80:80/", "malformed"),
        ("http://example.com:0/", "port"),
        ("http://example.com:65536/", "port"),
        ("http://example.com:" + "9" * 100 + "/", "port"),
        ("http://1.2.3.4.5/", "IPv4"),
        ("http://256.1.1.1/", "IPv4"),
        ("http://1.2.3.256/", "IPv4"),
        ("http://4294967296/", "IPv4"),
        ("http://08.8.8.8/", "IPv4"),
        ("http://1..2/", "IPv4"),
        ("http://example.123/", "IPv4"),
        ("http://example.0x1/", "IPv4"),
        ("http://[::1/", "malformed"),
        ("http://::1/", "malformed"),
        ("http://[::1]x/", "malformed"),
        ("http://[1.2.3.4]/", "IPv6"),
        ("http://[]/", "host"),
        ("http://[::1%25lo]/", "zone"),
        ("http://[fe80::1%eth0]/", "zone"),
        ("http://[v1.x]/", "IPv6"),
        ("http://" + "a" * 64 + ".com/", "host name"),
        ("http://" + "a." * 130 + "com/", "host"),
        ("http://xn--ä.example/", "international"),
        # Nothing behind it, no name behind it, only ASCII behind it, a capital letter behind it.
        ("http://xn--/", "international"),
        ("http://www.xn--0.example/a", "international"),
        ("http://xn--abc-.example/", "international"),
        ("http://xn--bcher-kvA8x.example/", "international"),
        ("http://a\u200db.example/", "international"),
        (" http://example.com/", "white space"),
        ("http://example.com/ ", "white space"),
        ("http://example.com/\u00a0", "white space"),
        ("http://exam\tple.com/", r"U\+0009 at position 12"),
        ("http://example.com/\r\nHost: evil", r"U\+000D"),
        ("http://example.com/\x00", r"U\+0000"),
        ("http://example.com/\x7f", r"U\+007F"),
        ("http://example.com/\x85", r"U\+0085"),
        ("http://example.com/\ud800", r"U\+D800"),
        ("http://example.com/" + "a" * MAX_URL_LENGTH, "characters"),
        ("http://example.com/" + "ä" * 1000, "characters"),
    ],
)
def test_a_url_that_cannot_be_fetched_is_refused_with_the_reason(text, says):
    with pytest.raises(InvalidUrl, match=says) as refused:
        parse_url(text)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=60))
@example("http://\u2100.example/")
@example("http://\u1e9e\u0345/")
@example("http://a\u3002/")
def test_any_text_is_a_url_or_an_invalid_one(text):
    for candidate in (text, "http://" + text, "http://host/" + text, f"http://[{text}]/"):
        try:
            url = parse_url(candidate)
        except InvalidUrl:
            continue
        assert url.text.isascii()
        assert url.text.isprintable()
        assert parse_url(url.text) == url


@given(st.text(string.printable + "äß。％", max_size=40))
def test_what_stands_behind_the_host_never_changes_the_host(rest):
    try:
        url = parse_url("https://example.com:8443/" + rest)
    except InvalidUrl:
        return
    assert (url.host, url.port) == ("example.com", 8443)
    assert url.text.startswith("https://example.com:8443/")


@given(st.from_regex(urls._CLEAN, fullmatch=True))
@example("http://127.1/")
@example("http://a.b./")
@example("http://a/%2e")
@example("http://a/.../b")
@example("http://a:80/")
@example("http://a:443/")
@example("http://a:99999/")
def test_the_short_way_gives_what_the_long_way_gives(text):
    try:
        expected = urls._parse_any(text)
    except InvalidUrl:
        with pytest.raises(InvalidUrl):
            parse_url(text)
    else:
        assert parse_url(text) == expected


def test_the_longest_url_is_taken():
    text = "http://example.com/"
    text += "a" * (MAX_URL_LENGTH - len(text))
    assert parse_url(text).text == text


BASE = parse_url("http://example.com/dir/page?q=1")


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("", "http://example.com/dir/page?q=1"),
        ("other", "http://example.com/dir/other"),
        ("/top", "http://example.com/top"),
        ("../up", "http://example.com/up"),
        ("../../../up", "http://example.com/up"),
        ("?x=2", "http://example.com/dir/page?x=2"),
        ("#part", "http://example.com/dir/page?q=1"),
        ("//other.example/x", "http://other.example/x"),
        ("https://other.example", "https://other.example/"),
        (".", "http://example.com/dir/"),
        ("..", "http://example.com/"),
        ("./a:b", "http://example.com/dir/a:b"),
        ("a?x=/../y", "http://example.com/dir/a?x=/../y"),
        ("HTTPS://Other.example", "https://other.example/"),
        ("  spaced \n", "http://example.com/dir/spaced"),
        ("two\nlines", "http://example.com/dir/twolines"),
    ],
)
def test_a_reference_is_resolved_against_its_page(reference, target):
    assert resolve_reference(BASE, reference).text == target


@pytest.mark.parametrize(
    "reference",
    [
        "a:b/../c",
        "http:other",
        "\\\\x.example",
        "mailto:a@b.example",
        "javascript:void(0)",
        "//[::1",
        "http://u@h/",
        "/a\\b",
        "//h:99999/",
    ],
)
def test_a_reference_to_nothing_that_can_be_fetched_is_refused(reference):
    with pytest.raises(InvalidUrl):
        resolve_reference(BASE, reference)


@given(
    st.sampled_from(["", "/", "//h.example/"]),
    st.lists(st.sampled_from(["a", "b.c", "..", ".", "~", "x=y"]), min_size=1, max_size=5),
    st.sampled_from(["", "/", "#part", "?q=/../x"]),
)
def test_a_reference_means_what_the_standard_library_says(start, segments, end):
    reference = start + "/".join(segments) + end
    assert resolve_reference(BASE, reference) == parse_url(urljoin(BASE.text, reference))


@given(st.text(max_size=40))
def test_any_reference_is_a_url_or_an_invalid_one(reference):
    try:
        url = resolve_reference(BASE, reference)
    except InvalidUrl:
        return
    assert parse_url(url.text) == url


REFERENCES = st.one_of(
    st.text(max_size=40),
    st.from_regex(urls._CLEAN_REFERENCE, fullmatch=True),
    st.from_regex(urls._PLAIN_LINK, fullmatch=True),
    st.text("aB1.-_:@/?#", max_size=20).map(lambda rest: "https://" + rest),
    st.text("ab/.?#%:;=&hps", max_size=12).map(lambda rest: "http://example.com/" + rest),
    st.text("ab/.?#%:;=&hps", max_size=12).map(lambda rest: "http://other.example" + rest),
)


@given(REFERENCES)
@example("/%C3%A4/%c3%a4")
@example("/.")
@example("a/..")
@example("//h.example/x")
@example("http://example.com//x")
@example("http://example.com/?x#y")
@example("?x")
@example("?")
@example("#")
@example("")
@example("/a?#")
@example("b:c")
@example("https:x")
@example("/a#\x00")
@example("/" + "a" * MAX_URL_LENGTH)
@example("/a/../b")
@example("/a?b=/../c")
@example("///x")
@example("http:///x")
@example("http://x.example./a")
@example("http://x..example/a")
@example("http://x.1/a")
@example("http://127.1/a")
@example("http://x.example/a\n")
@example("http://x.example/.a")
@example("http://x.example:80/a")
@example("http://" + "a" * 63 + ".example/")
@example("http://" + "a" * 64 + ".example/")
@example("http://" + "a." * 122 + "example/")
@example("http://" + "a." * 123 + "example/")
@example("javascript://x.example/")
def test_the_links_of_a_page_are_resolved_as_any_reference(reference):
    try:
        expected = resolve_reference(BASE, reference).text
    except InvalidUrl:
        with pytest.raises(InvalidUrl):
            Links(BASE).resolve(reference)
    else:
        assert Links(BASE).resolve(reference) == expected


def test_a_fragment_may_be_long_but_a_reference_may_not():
    assert Links(BASE).resolve("#" + "x" * urls.MAX_REFERENCE_LENGTH) == BASE.text
    assert resolve_reference(BASE, "#" + "x" * urls.MAX_REFERENCE_LENGTH) == BASE
    for resolve in (Links(BASE).resolve, lambda reference: resolve_reference(BASE, reference).text):
        assert resolve("/a#" + "x" * MAX_URL_LENGTH) == "http://example.com/a"
    with pytest.raises(InvalidUrl, match="characters"):
        resolve_reference(BASE, " " * urls.MAX_REFERENCE_LENGTH + "a")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("0x7f.1", "127.0.0.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8:0::1", "2001:db8::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
    ],
)
def test_a_host_alone_is_written_as_in_a_url(text, host):
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "a/b",
        "http://a/",
        "a:80",
        "[a]",
        "u@a",
        "*.a",
        ".a",
        "a..b",
        "1.2.3.999",
        "a" * 254,
    ],
)
def test_what_is_no_host_is_refused(text):
    with pytest.raises(InvalidUrl):
        parse_host(text)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.com", "example.com"),
        ("www.example.com", "example.com"),
        ("a.b.c.example.com", "example.com"),
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("co.uk", "co.uk"),
        ("com", "com"),
        ("localhost", "localhost"),
        ("host.unknown-suffix", "host.unknown-suffix"),
        ("a.host.unknown-suffix", "host.unknown-suffix"),
        ("www.xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a.host.suffix9", "host.suffix9"),
        ("8.8.8.8", "8.8.8.8"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_registrable_domain(host, domain):
    assert registrable_domain(host) == domain


@pytest.mark.parametrize(
    ("host", "queue"),
    [("example.com", "fetch.38"), ("news.bbc.co.uk", "fetch.52"), ("1.1.1.1", "fetch.63")],
)
def test_a_shard_is_the_same_for_ever(host, queue):
    """Another hash would send the jobs of a domain to a queue that nobody else expects."""
    assert shard_queue(f"http://{host}/", 64) == queue


def test_all_urls_of_a_domain_share_a_shard():
    queues = {
        shard_queue(url, 64)
        for url in (
            "http://example.com/",
            "https://www.EXAMPLE.com:8443/a?b",
            "http://a.b.example.com./",
        )
    }
    assert len(queues) == 1


@pytest.mark.parametrize(
    ("shards", "first", "last"),
    [
        (1, "fetch.00", "fetch.00"),
        (64, "fetch.00", "fetch.63"),
        (100, "fetch.00", "fetch.99"),
        (101, "fetch.000", "fetch.100"),
        (1024, "fetch.0000", "fetch.1023"),
    ],
)
def test_the_queues_of_all_shards(shards, first, last):
    queues = shard_queues(shards)
    assert (queues[0], queues[-1], len(set(queues))) == (first, last, shards)


@given(st.integers(0, 2000), st.integers(1, 1024))
def test_a_shard_is_one_of_the_queues(number, shards):
    assert shard_queue(f"http://host{number}.example/", shards) in shard_queues(shards)


def test_domains_are_spread_over_the_shards():
    used = {shard_queue(f"http://site{number}.example/", 64) for number in range(1000)}
    assert len(used) == 64


def test_an_unusable_url_has_no_shard():
    with pytest.raises(InvalidUrl):
        shard_queue("http://user@host/", 64)


def test_what_is_remembered_is_bounded():
    for cached in (urls.parse_url, urls.registrable_domain, urls._checked_host):
        assert cached.cache_parameters()["maxsize"] <= urls.HOSTS_REMEMBERED


@given(st.text("0123456789abcdefx.", min_size=1, max_size=20))
def test_a_host_that_looks_like_a_number_is_an_address_or_refused(host):
    assume(host.rstrip(".")[-1:].isdigit())
    try:
        url = parse_url(f"http://{host}/")
    except InvalidUrl:
        return
    last = host.rstrip(".").rpartition(".")[2]
    is_number = re.fullmatch("[0-9]+|0x[0-9a-f]*", last) is not None
    assert url.is_address or not is_number
