"""Signatures, against those that AWS publishes: its signature test suite and its guide."""

from datetime import UTC, datetime

import pytest

from manyhands.worker.aws.signing import Keys, signed

KEYS = Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
URL = "https://example.amazonaws.com/"
FORM = "application/x-www-form-urlencoded"


def authorization(
    method: str, url: str, content_type: str = "", body: bytes = b"", service: str = "service"
) -> str:
    headers = {"Content-Type": content_type} if content_type else {}
    return signed(
        method, url, headers, body, keys=KEYS, region="us-east-1", service=service, at=AT
    )["Authorization"]


@pytest.mark.parametrize(
    ("of", "signature"),
    [
        # get-vanilla, post-vanilla and post-x-www-form-urlencoded of the suite.
        (
            authorization("GET", URL),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            authorization("POST", URL),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            authorization("POST", URL, FORM, b"Param1=value1"),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        # Of the guide.
        (
            authorization(
                "GET",
                "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
                f"{FORM}; charset=utf-8",
                service="iam",
            ),
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        ),
    ],
    ids=["get", "post", "form", "guide"],
)
def test_a_signature_is_the_one_that_aws_publishes(of, signature):
    assert of.endswith(f"Signature={signature}")


def test_what_is_signed_is_named_and_a_token_goes_along():
    sent = signed(
        "POST",
        URL,
        {"Content-Type": FORM},
        b"",
        keys=KEYS._replace(token="lent"),
        region="eu-central-1",
        service="monitoring",
        at=AT,
    )
    assert sent["X-Amz-Security-Token"] == "lent"
    assert sent["Host"] == "example.amazonaws.com"
    assert sent["Authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-central-1/monitoring/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature="
    )
