"""URLs of sinks that write files."""

from pathlib import Path

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.places import DEFAULT_SPOOL, Bucket, parse_place

OPTIONS = {"compression": ("gzip", "zstd")}


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("warc:out", "out"),
        ("warc:out/deep/", "out/deep"),
        ("warc:/data/out", "/data/out"),
        ("warc:///data/out", "/data/out"),
        ("warc:../out?compression=zstd", "../out"),
    ],
)
def test_a_local_place_is_a_path(url: str, path: str):
    place = parse_place(url, OPTIONS)
    assert (place.path, place.bucket) == (Path(path), None)
    assert place.name == f"warc:{path}"


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("jsonl+s3://my-bucket", "my-bucket", ""),
        ("jsonl+s3://my-bucket/", "my-bucket", ""),
        ("jsonl+s3://my.bucket/a/b/", "my.bucket", "a/b"),
    ],
)
def test_a_place_on_s3_is_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str):
    place = parse_place(url, {})
    assert place.bucket == Bucket(bucket, prefix)
    assert place.name == url.rstrip("/")
    assert place.path.parent == DEFAULT_SPOOL


def test_each_place_on_s3_has_a_directory_of_its_own_in_the_spool():
    urls = [
        "warc+s3://bucket/a?spool=spool",
        "warc+s3://bucket/a-b?spool=spool",
        "warc+s3://bucket/a/b?spool=spool",
        "warc+s3://bucket-a/b?spool=spool",
        "parquet+s3://bucket/a?spool=spool",
        f"warc+s3://bucket/{'long/' * 50}?spool=spool",
    ]
    paths = {parse_place(url, {}).path for url in urls}
    assert len(paths) == len(urls)
    assert {path.parent for path in paths} == {Path("spool")}
    assert max(len(path.name) for path in paths) < 100


def test_the_spool_of_a_place_is_the_same_again():
    first, second = (parse_place("warc+s3://b-1/p?spool=/data/spool", {}) for _ in range(2))
    assert first == second
    assert first.path.name.startswith("warc-s3-b-1-p-")


def test_an_option_has_its_default_or_what_was_said():
    assert parse_place("warc:out", OPTIONS).options == {"compression": "gzip"}
    assert parse_place("warc:out?compression=zstd", OPTIONS).options == {"compression": "zstd"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("warc:", "needs a path"),
        ("warc://out", "needs a path"),
        ("warc:out?compression=lzma", "compression of warc is gzip or zstd, not 'lzma'"),
        ("warc:out?speed=high", "has no option 'speed'"),
        ("warc:out?spool=x", "has no option 'spool'"),
        ("warc:out?compression", "cannot be read"),
        ("warc+s3:bucket/prefix", "needs a bucket"),
        ("warc+s3://", "needs a bucket"),
        ("warc+s3://Bad_Bucket/x", "needs a bucket"),
        ("warc+s3://bucket/a/../b", "cannot use the prefix"),
        ("warc+s3://bucket/a//b", "cannot use the prefix"),
    ],
)
def test_a_wrong_url_is_told_in_one_line(url: str, message: str):
    with pytest.raises(ConfigError, match=message) as raised:
        parse_place(url, OPTIONS)
    assert "\n" not in str(raised.value)
