"""One HTTP request, and its whole answer, in the thread of the caller."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple

from manyhands.shared.errors import ManyhandsError

# What is read of an answer.
MOST_BYTES = 1024 * 1024


class NoAnswer(ManyhandsError):
    """The server was not reached, or did not answer in time."""


class Answer(NamedTuple):
    status: int
    body: bytes


# No proxy stands between a machine and its role; those of the environment are for the rest.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_as_told = urllib.request.build_opener()


def ask(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    timeout_s: float,
    is_direct: bool = False,
) -> Answer:
    """Raises NoAnswer; a refusal is an answer."""
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    opener = _direct if is_direct else _as_told
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return Answer(answer.status, answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read(MOST_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(str(getattr(error, "reason", error)) or type(error).__name__) from error
