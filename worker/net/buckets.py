"""Buckets of S3, or of anything that speaks like it: how one is reached, and what its errors say.

Credentials, region and endpoint come from the variables that the tools of AWS have
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, …), or from the machine's
role.
"""

import re
from datetime import timedelta

from obstore.store import S3Store

CONNECT_TIMEOUT = timedelta(seconds=5)
# The library has no type for most of what a server answers.
_STATUS = re.compile(r"status code: (\d{3})")


def open_bucket(
    name: str,
    prefix: str = "",
    *,
    request_timeout: timedelta,
    retries: int,
    retry_timeout: timedelta,
) -> S3Store:
    """Nothing is asked yet. The retries are those of the library."""
    return S3Store(
        name,
        prefix=prefix or None,
        # Whoever names an endpoint without TLS means it.
        client_options={
            "allow_http": True,
            "timeout": request_timeout,
            "connect_timeout": CONNECT_TIMEOUT,
        },
        retry_config={"max_retries": retries, "retry_timeout": retry_timeout},
    )


def status_in(error_text: str) -> int:
    """What the server answered; 0 when it answered nothing."""
    found = _STATUS.search(error_text)
    return int(found[1]) if found else 0
