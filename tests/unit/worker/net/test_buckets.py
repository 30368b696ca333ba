"""What the text of an error of the S3 library says."""

import pytest

from manyhands.worker.net.buckets import S3Answer

ANSWERED = "Server returned non-2xx status code: {}: <Error><Code>{}</Code>{}</Error>"


@pytest.mark.parametrize(
    ("text", "answer", "is_refusal"),
    [
        (
            ANSWERED.format("404 Not Found", "NoSuchKey", "\n<Message>No such key</Message>"),
            S3Answer(404, "NoSuchKey", "No such key"),
            True,
        ),
        (
            ANSWERED.format("403 Forbidden", "AccessDenied", ""),
            S3Answer(403, "AccessDenied", ""),
            True,
        ),
        ("status code: 301 Moved Permanently", S3Answer(301, "", ""), True),
        ("status code: 429 Too Many Requests", S3Answer(429, "", ""), False),
        ("status code: 500 Internal Server Error", S3Answer(500, "", ""), False),
        ("HTTP error: connection refused", S3Answer(0, "", ""), False),
    ],
)
def test_an_answer_is_read_from_an_error(text, answer, is_refusal):
    assert S3Answer.of(OSError(text)) == answer
    assert answer.is_refusal is is_refusal
