"""How a page came, as its record says it."""

from manyhands.worker.net.arrivals import announced_size, arrival_of, headers_of
from manyhands.worker.net.fetcher import Answer, Phases


def answer_with(**changes: object) -> Answer:
    phases = Phases(dns_s=0.0014, connect_s=0.02, first_byte_s=0.3, body_s=4.0)
    made = Answer(
        url="http://example.com/",
        status=200,
        content_type="text/html",
        location=None,
        retry_after=None,
        robots_tag="",
        cache_control="",
        body=b"12345",
        is_truncated=False,
        wire_bytes=3,
        phases=phases,
        head=b'HTTP/1.1 200 OK\r\nServer: x: y\r\nETag:"z"\r\nX-\xe4: \xff\r\n\r\n',
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_it_has_size_times_and_headers_that_matter():
    made = arrival_of(answer_with(etag='"z"', content_language="de"), redirects=["u"])
    assert made[:4] == (5, "de", "", '"z"')
    assert (made.dns_ms, made.connect_ms, made.first_byte_ms, made.body_ms) == (1, 20, 300, 4000)
    assert (made.redirects, made.headers) == (("u",), ())


def test_all_headers_are_told_if_they_were_asked_for():
    made = arrival_of(answer_with(), has_all_headers=True)
    assert made.headers == (("Server", "x: y"), ("ETag", '"z"'), ("X-ä", "ÿ"))
    assert headers_of(b"") == ()


def test_the_size_of_what_nobody_read_is_what_the_server_said():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n"
    assert announced_size(answer_with(head=head % b"70000")) == 70000
    assert announced_size(answer_with(head=head % b"\xb2")) == 3
    assert announced_size(answer_with(head=head % (b"9" * 5000))) == 2**53 - 1
    assert announced_size(answer_with()) == 3
