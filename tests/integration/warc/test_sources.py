"""Bytes of archives from where they lie: files, a web server, and a real S3 server."""

import asyncio
import os
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest

from manyhands.shared.settings import AllowSettings, FetchSettings, Settings, WarcSettings
from manyhands.shared.warc_places import ObjectAt
from manyhands.worker.net.fetcher import PermanentFetchError, TemporaryFetchError
from manyhands.worker.warc import http_source
from manyhands.worker.warc.reading import ArchivedRecord, Item, Position, read_archive
from manyhands.worker.warc.sources import Sources
from manyhands.worker.warc.streams import Aborted, ByteStream
from manyhands.worker.warc.threads import in_thread
from tests.integration.warc.conftest import Put
from tests.support.archives import Archive, record_id
from tests.support.file_server import ServedFile
from tests.support.local_site import LocalSite, answer, redirect
from tests.support.waiting import eventually

LOOPBACK = AllowSettings.model_validate({"nets": "127.0.0.0/8"})
QUICK = FetchSettings(connect_timeout_s=2, read_timeout_s=0.3, timeout_s=3)
PAGES = 200


@cache
def pages_packed() -> Archive:
    return Archive.of_pages(PAGES, size=20_000)


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


@pytest.fixture
def served(site: LocalSite) -> ServedFile:
    file = ServedFile(site, pages_packed().data)
    site.answers["/a.warc.gz"] = file
    return file


@pytest.fixture
async def sources(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sources]:
    monkeypatch.setattr(http_source, "RESUME_AFTER_S", 0.01)
    allowed = tuple(ObjectAt(name, "") for name in (bucket, "bucket", "no-such-bucket"))
    warc = WarcSettings(files=tmp_path, s3_sources=allowed)
    settings = Settings(allow=LOOPBACK, fetch=QUICK, warc=warc)
    sources = Sources(settings)
    yield sources
    await sources.close()


def whole(stream: ByteStream, offset: int = 0) -> bytes:
    try:
        stream.seek(offset)
        found = b""
        while piece := stream.read():
            found += bytes(piece)
        assert not stream.read()
        return found
    finally:
        stream.close()


async def read(sources: Sources, source: str, offset: int = 0) -> bytes:
    _, stream = sources.open(source)
    return await in_thread(lambda: whole(stream, offset), stream.abort)


# HTTP


@pytest.mark.parametrize("offset", [0, 1, 100_000])
@pytest.mark.parametrize("knows_ranges", [True, False])
@pytest.mark.parametrize("has_length", [True, False])
async def test_a_file_is_read_from_an_offset_on(
    sources: Sources,
    site: LocalSite,
    served: ServedFile,
    offset: int,
    knows_ranges: bool,
    has_length: bool,
) -> None:
    served.knows_ranges, served.has_length = knows_ranges, has_length
    assert await read(sources, site.url + "/a.warc.gz", offset) == pages_packed().data[offset:]
    assert served.asked_for == [offset]


async def test_an_offset_at_the_end_or_beyond_is_the_end(
    sources: Sources, site: LocalSite, served: ServedFile
) -> None:
    for offset in (len(pages_packed().data), len(pages_packed().data) + 10):
        assert await read(sources, site.url + "/a.warc.gz", offset) == b""


@pytest.mark.parametrize("knows_ranges", [True, False])
async def test_a_lost_connection_is_taken_up_where_it_was(
    sources: Sources, site: LocalSite, served: ServedFile, knows_ranges: bool
) -> None:
    served.knows_ranges = knows_ranges
    served.tag = ""
    served.cut_after, served.cuts = 400_000, 3
    assert await read(sources, site.url + "/a.warc.gz") == pages_packed().data
    first, *others = served.asked_for
    assert first == 0
    assert len(others) == 3
    assert all(0 < offset < len(pages_packed().data) for offset in others)


async def test_a_connection_that_is_lost_every_time_is_given_up(
    sources: Sources, site: LocalSite, served: ServedFile
) -> None:
    served.cut_after, served.cuts = 0, 100
    with pytest.raises(TemporaryFetchError, match=r"a\.warc\.gz: the connection was lost"):
        await read(sources, site.url + "/a.warc.gz")
    assert len(served.asked_for) == 6


async def test_silence_is_a_time_out(sources: Sources, site: LocalSite) -> None:
    async def says_nothing(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    site.answers["*"] = says_nothing
    _, stream = sources.open(site.url + "/a.warc.gz?signature=secret")
    with pytest.raises(TemporaryFetchError) as raised:
        # Six times what a read may take.
        await in_thread(lambda: whole(stream), stream.abort)
    assert "secret" not in str(raised.value)


async def test_bytes_that_are_no_body_are_silence_too(sources: Sources, site: LocalSite) -> None:
    async def never_ends(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;")
        while True:
            writer.write(b"e" * 1000)
            await writer.drain()
            await asyncio.sleep(0.01)

    site.answers["*"] = never_ends
    with pytest.raises(TemporaryFetchError, match="nothing came for too long"):
        await asyncio.wait_for(read(sources, site.url + "/a.warc.gz"), 20)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, PermanentFetchError),
        (403, PermanentFetchError),
        (401, PermanentFetchError),
        (410, PermanentFetchError),
    ],
)
async def test_what_is_not_there_is_given_up_at_once(
    sources: Sources, site: LocalSite, status: int, kind: type[Exception]
) -> None:
    site.answers["*"] = answer(status)
    with pytest.raises(kind, match=f"the server answered {status}"):
        await read(sources, site.url + "/a.warc.gz")
    assert len(site.requests) == 1


async def test_a_server_in_trouble_may_work_later(sources: Sources, site: LocalSite) -> None:
    site.answers["*"] = answer(503, Retry_After="30")
    with pytest.raises(TemporaryFetchError, match="503") as raised:
        await read(sources, site.url + "/a.warc.gz")
    assert raised.value.retry_after_s == 30
    assert len(site.requests) == 1


async def test_a_file_that_was_changed_meanwhile_is_not_mixed(
    sources: Sources, site: LocalSite, served: ServedFile
) -> None:
    served.cut_after, served.cuts = 300_000, 1
    _, stream = sources.open(site.url + "/a.warc.gz")

    def read_and_change() -> bytes:
        first = bytes(stream.read())
        served.tag = '"two"'
        return first + whole(stream, len(first))

    with pytest.raises(PermanentFetchError, match="changed while it was read"):
        await in_thread(read_and_change, stream.abort)


async def test_an_answer_that_does_not_tell_the_length_is_no_change(
    sources: Sources, site: LocalSite, served: ServedFile
) -> None:
    served.has_length = False
    _, stream = sources.open(site.url + "/a.warc.gz")

    def read_in_two() -> bytes:
        first = bytes(stream.read())
        stream.seek(0)
        stream.seek(len(first))
        return first + whole(stream, len(first))

    assert await in_thread(read_in_two, stream.abort) == pages_packed().data


async def test_redirects_are_followed(
    sources: Sources, site: LocalSite, served: ServedFile
) -> None:
    site.answers["/latest"] = redirect("/a.warc.gz")
    assert await read(sources, site.url + "/latest", 5) == pages_packed().data[5:]
    site.answers["/loop"] = redirect("/loop")
    with pytest.raises(PermanentFetchError, match="more than 5 redirects"):
        await read(sources, site.url + "/loop")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_our_own_network_is_not_read(site: LocalSite, host: str) -> None:
    site.answers["*"] = answer(200, b"secret")
    sources = Sources(Settings(fetch=QUICK))
    with pytest.raises(PermanentFetchError, match="public address"):
        await read(sources, f"http://{host}:{site.port}/")
    await sources.close()
    assert site.connections == 0


async def test_a_redirect_does_not_lead_into_our_own_network(site: LocalSite) -> None:
    other = LocalSite("127.0.0.2", site.port)
    async with other:
        site.answers["/"] = redirect(f"http://127.0.0.2:{site.port}/")
        nets = AllowSettings.model_validate({"nets": "127.0.0.1/32"})
        sources = Sources(Settings(allow=nets, fetch=QUICK))
        with pytest.raises(PermanentFetchError, match="not a public address"):
            await read(sources, site.url + "/")
        await sources.close()
        assert (site.connections, other.connections) == (1, 0)


async def test_a_reader_that_is_slow_stops_the_sender(sources: Sources, site: LocalSite) -> None:
    served = ServedFile(site, bytes(64 * 1024 * 1024))
    site.answers["/big"] = served
    _, stream = sources.open(site.url + "/big")
    first = await in_thread(stream.read, stream.abort)
    await asyncio.sleep(0.5)
    # What aiohttp and the buffers of both sockets take.
    assert len(first) < served.sent < 16 * 1024 * 1024
    stream.close()


async def test_a_read_that_waits_is_ended_by_an_abort(sources: Sources, site: LocalSite) -> None:
    served = ServedFile(site, bytes(1_000_000), pause_s=60)
    site.answers["/slow"] = served
    _, stream = sources.open(site.url + "/slow")
    ended: list[BaseException] = []

    def read_all() -> None:
        try:
            whole(stream)
        except BaseException as error:
            ended.append(error)

    task = asyncio.create_task(in_thread(read_all, stream.abort))
    await eventually(lambda: served.sent > 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: bool(ended))
    assert isinstance(ended[0], Aborted)


def items_of(stream: ByteStream, start: Position) -> list[Item]:
    items = list(read_archive(stream, start, 1_000_000))
    stream.close()
    return items


async def test_records_of_a_damaged_file_are_read_over_http(
    sources: Sources, site: LocalSite
) -> None:
    damaged = bytearray(pages_packed().data)
    for number in (10, 50, 190):
        damaged[pages_packed().offsets[number] + 500] ^= 0xFF
    site.answers["/bad.warc.gz"] = ServedFile(site, bytes(damaged))
    _, stream = sources.open(site.url + "/bad.warc.gz")

    items = await in_thread(lambda: items_of(stream, Position()), stream.abort)

    assert [item.id for item in items if isinstance(item, ArchivedRecord)] == [
        record_id(number) for number in range(PAGES) if number not in (10, 50, 190)
    ]


# Files


async def test_a_local_file_is_read_below_the_directory(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.warc.gz").write_bytes(pages_packed().data)
    for name in ("sub/a.warc.gz", str(tmp_path / "sub" / "a.warc.gz"), "sub/../sub/a.warc.gz"):
        assert await read(sources, name, 7) == pages_packed().data[7:]


async def test_a_link_within_the_directory_is_followed(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(b"data")
    (tmp_path / "link").symlink_to(tmp_path / "a.warc.gz")
    assert await read(sources, "link") == b"data"


async def test_nothing_outside_of_the_directory_is_read(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_bytes(b"secret")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside / "secret")
    (inside / "directory").symlink_to(outside)
    (tmp_path / "inside-too").mkdir()
    (tmp_path / "inside-too" / "secret").write_bytes(b"secret")
    sources = Sources(Settings(warc=WarcSettings(files=inside)))
    for name in (
        str(outside / "secret"),
        "../outside/secret",
        "../inside-too/secret",
        "link",
        "directory/secret",
        "/etc/hostname",
    ):
        with pytest.raises(PermanentFetchError, match="not below WARC_FILES"):
            sources.open(name)


async def test_without_a_directory_no_local_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(b"data")
    with pytest.raises(PermanentFetchError, match="WARC_FILES is not set"):
        Sources(Settings()).open(str(tmp_path / "a.warc"))


async def test_what_is_no_file_is_told(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermanentFetchError, match="No such file"):
        sources.open("missing.warc.gz")
    for name in ("directory", "pipe"):
        with pytest.raises(PermanentFetchError, match="is not a file"):
            sources.open(name)
    with pytest.raises(PermanentFetchError, match="ftp:// is not known"):
        sources.open("ftp://example.com/a")


# S3


@pytest.mark.parametrize("offset", [0, 1, 5_000_000, 9_999_999, 10_000_000, 10_000_001])
async def test_an_object_is_read_from_an_offset_on(
    sources: Sources, bucket: str, put: Put, offset: int
) -> None:
    data = os.urandom(1000) * 10_000
    put("a/b.warc.gz", data)
    assert await read(sources, f"s3://{bucket}/a/b.warc.gz", offset) == data[offset:]


async def test_records_are_read_from_s3(sources: Sources, bucket: str, put: Put) -> None:
    put("a.warc.gz", pages_packed().data)
    _, stream = sources.open(f"s3://{bucket}/a.warc.gz")
    start = Position(pages_packed().offsets[150])
    items = await in_thread(lambda: items_of(stream, start), stream.abort)
    assert len(items) == 50


async def test_an_object_or_bucket_that_is_not_there_is_told(
    sources: Sources, bucket: str, put: Put
) -> None:
    with pytest.raises(PermanentFetchError, match=f"s3://{bucket}/none: S3 said: 404 NoSuchKey"):
        await read(sources, f"s3://{bucket}/none")
    with pytest.raises(PermanentFetchError, match="404 NoSuchBucket"):
        await read(sources, "s3://no-such-bucket/a")


async def test_credentials_that_do_not_do_are_told(
    sources: Sources, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a", b"data")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PermanentFetchError, match="403 SignatureDoesNotMatch"):
        await read(sources, f"s3://{bucket}/a")


async def test_expired_credentials_are_told(
    sources: Sources, site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As S3 itself answers; the server of our tests has no credentials that expire."""
    site.answers["*"] = answer(400, b"<Error><Code>ExpiredToken</Code></Error>")
    monkeypatch.setenv("AWS_ENDPOINT_URL", site.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with pytest.raises(PermanentFetchError, match="400 ExpiredToken"):
        await read(sources, "s3://bucket/a")


async def test_an_s3_server_that_is_gone_may_come_back(
    sources: Sources, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(TemporaryFetchError, match="S3 said"):
        await read(sources, f"s3://{bucket}/a")
