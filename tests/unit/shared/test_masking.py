"""URLs that are shown: nothing that opens a door, and everything else."""

import pytest

from manyhands.shared.masking import MASK, masked_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("tcp://:secret@host:7419", f"tcp://{MASK}@host:7419"),
        ("postgres://me:p@ss/w@h/db", f"postgres://{MASK}@h/db"),
        (
            "postgres://h/db?user=me&password=s3&sslmode=require",
            f"postgres://h/db?user=me&password={MASK}&sslmode=require",
        ),
        (
            "postgres://a:b@h/db?sslpassword=x%20y#z",
            f"postgres://{MASK}@h/db?sslpassword={MASK}#z",
        ),
        ("warc+s3://b/p?SECRET_ACCESS_KEY=x", f"warc+s3://b/p?SECRET_ACCESS_KEY={MASK}"),
        ("https://h/f?X-Amz-Signature=a&b=c", f"https://h/f?X-Amz-Signature={MASK}&b=c"),
        ("https://h/f?token=a;b=c", f"https://h/f?token={MASK};b=c"),
        ("kafka://h:9092/t?password=p@q", f"kafka://h:9092/t?password={MASK}"),
        ("jsonl:pages.ndjson", "jsonl:pages.ndjson"),
        ("parquet:/data?rotate_s=60", "parquet:/data?rotate_s=60"),
    ],
)
def test_what_is_secret_in_a_url_is_masked(url, shown):
    assert masked_url(url) == shown
