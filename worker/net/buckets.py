"""Buckets of S3, or of compatible servers: how to reach one, and what its errors mean.

Credentials, region and endpoint come from the variables of the AWS tools (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, …), or from the machine's role.
"""

import re
from datetime import timedelta
from typing import NamedTuple, Self

from obstore.store import S3Store

from manyhands.worker.net.fetcher import TEMPORARY_STATUSES

CONNECT_TIMEOUT = timedelta(seconds=5)
_STATUS = re.compile(r"status code: (\d{3})")
_SAID = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")


def open_bucket(
    name: str,
    prefix: str = "",
    *,
    request_timeout: timedelta,
    retries: int,
    retry_timeout: timedelta,
) -> S3Store:
    """Sends no request yet. The library does the retries."""
    return S3Store(
        name,
        prefix=prefix or None,
        # An endpoint without TLS is named on purpose.
        client_options={
            "allow_http": True,
            "timeout": request_timeout,
            "connect_timeout": CONNECT_TIMEOUT,
        },
        retry_config={"max_retries": retries, "retry_timeout": retry_timeout},
    )


class S3Answer(NamedTuple):
    """What the server answered, read from the text of the library's error: it has no type for most
    of it. `status` is 0 and the rest empty when there was no answer."""

    status: int
    code: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        text = str(error)
        status, said = _STATUS.search(text), _SAID.search(text)
        code, message = said.groups("") if said else ("", "")
        return cls(int(status[1]) if status else 0, code, message)

    @property
    def is_refusal(self) -> bool:
        """Trying again does not help: there is no such bucket, or the credentials are not
        enough."""
        return 300 <= self.status < 500 and self.status not in TEMPORARY_STATUSES
