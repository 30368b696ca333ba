"""Records as documents of Elasticsearch: the indices `<index>-pages` and `<index>-records`.

By plain HTTP, because version 9 of the official client refuses servers of version 8; this works
with 7 to 9 and with OpenSearch. A document has the id of its record: a repeat makes no second one.
"""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NoReturn
from urllib.parse import quote

import orjson
from aiohttp import ClientSession, ClientTimeout

from manyhands.shared.crawl.page_fields import VERSION
from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.server_url import server_url
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.rows import rows_of
from manyhands.worker.sinks.servers.elasticsearch_bulk import (
    BAD_REQUEST,
    LATER_FIELDS,
    PAGES_INDEX,
    RECORDS_INDEX,
    SERVER_ERROR,
    TOO_MANY_REQUESTS,
    Fate,
    Placed,
    document_of,
    fates_of,
    indices_of,
    oldest_schema,
    reason_in,
    requests_of,
)

EXAMPLE = "elasticsearch://user:password@host:9200/index"
DEFAULT_PORT = 9200
CONNECT_S = 10.0
COMMAND_S = 60.0
# Waits before documents that the server had no room for are sent again; then the batch fails.
DELAYS_S = (0.5, 1.0, 2.0)
BULK_PATH = "/_bulk?filter_path=errors,items.*.status,items.*.error"
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
# Otherwise a server compresses its answers, which costs more than sending them.
HEADERS = {"Accept-Encoding": "identity"}
OK = 200
NOT_FOUND = 404
TOO_LARGE = 413
# What an operator has to do about it.
REMEDIES = {
    401: "check user and password, with special characters URL-escaped",
    403: "let the user create these indices, change their mappings and write to them",
}


@dataclass(slots=True)
class Outcome:
    """Documents of a batch that were not taken: those that never will be, with reasons by index,
    and those that there was no room for, with the last reason."""

    refused: dict[int, str] = field(default_factory=dict)
    again: list[Placed] = field(default_factory=list)
    reason: str = ""


class ElasticsearchSink:
    """A `Sink`. State: the session, whether the indices are there, and which documents of a batch
    that failed are in them already."""

    kinds = frozenset({PageRecord, PlainRecord})

    def __init__(self, url: str) -> None:
        place = server_url(
            url,
            schemes=("elasticsearch", "elasticsearch+https"),
            default_port=DEFAULT_PORT,
            example=EXAMPLE,
        )
        if len(place.hosts) > 1:
            raise ConfigError(f"SINKS: {place.name}: name one host")
        self.name = place.name
        scheme = "https" if place.scheme.endswith("+https") else "http"
        self._base = f"{scheme}://{place.places}"
        self._headers = dict(HEADERS)
        if place.user:
            login = b64encode(f"{place.user}:{place.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        self._indices = indices_of(place.path)
        self._session: ClientSession | None = None
        self._has_indices = False
        self._done: set[tuple[str, str]] = set()

    async def open(self) -> None:
        if not await self._make_index(self._indices.pages, PAGES_INDEX):
            await self._add_later_fields(self._indices.pages)
        await self._make_index(self._indices.records, RECORDS_INDEX)
        self._has_indices = True

    async def write(self, records: Sequence[Record]) -> None:
        documents = rows_of(records, lambda record: document_of(record, self._indices))
        if not self._has_indices:
            # The server would make them itself, without our mappings.
            await self.open()
        self._done &= {document.name for document in documents}
        waiting = [
            (position, document)
            for position, document in enumerate(documents)
            if document.name not in self._done
        ]
        outcome = Outcome()
        for delay_s in (*DELAYS_S, None):
            outcome.again = []
            for together in requests_of(waiting):
                await self._send(together, outcome)
            waiting = outcome.again
            if not waiting:
                break
            if delay_s is None:
                raise ConnectionError(f"{len(waiting)} documents wait: {outcome.reason}")
            await asyncio.sleep(delay_s)
        if outcome.refused:
            raise RecordsRefused(outcome.refused)
        self._done.clear()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _make_index(self, name: str, settings: Mapping[str, Any]) -> bool:
        """If it is missing: a user who may only write can be given an existing index, or an
        alias. False: it is there."""
        path = f"/{quote(name, safe='')}"
        status, answer = await self._call("HEAD", path)
        if status == NOT_FOUND:
            status, answer = await self._call("PUT", path, orjson.dumps(settings), JSON)
            # By another process, which starts at the same time.
            if status == BAD_REQUEST and "resource_already_exists" in reason_in(answer, status):
                return True
            if status == BAD_REQUEST:
                raise ConfigError(f"SINKS: {self.name}: {reason_in(answer, status)}")
            if status == OK:
                return True
        if status != OK:
            self._raise(status, answer)
        return False

    async def _add_later_fields(self, name: str) -> None:
        """To an index of an older release, whose documents stay as they are."""
        path = f"/{quote(name, safe='')}/_mapping"
        status, answer = await self._call("GET", path)
        if status != OK:
            self._raise(status, answer)
        if oldest_schema(answer) >= VERSION:
            return
        status, answer = await self._call("PUT", path, orjson.dumps(LATER_FIELDS), JSON)
        if status == BAD_REQUEST:
            raise ConfigError(f"SINKS: {self.name}: {reason_in(answer, status)}")
        if status != OK:
            self._raise(status, answer)

    async def _send(self, together: list[Placed], outcome: Outcome) -> None:
        body = b"".join(document.lines for _, document in together)
        status, answer = await self._call("POST", BULK_PATH, body, NDJSON)
        if status == TOO_LARGE:
            await self._send_halves(together, outcome)
        elif status == TOO_MANY_REQUESTS or status >= SERVER_ERROR:
            outcome.again += together
            outcome.reason = reason_in(answer, status)
        elif status != OK:
            self._raise(status, answer)
        else:
            self._sort(together, fates_of(answer, len(together)), outcome)

    async def _send_halves(self, together: list[Placed], outcome: Outcome) -> None:
        """The server, or a proxy in front of it, has a low limit."""
        if len(together) == 1:
            outcome.refused[together[0][0]] = "the document is too large for the server"
            return
        middle = len(together) // 2
        await self._send(together[:middle], outcome)
        await self._send(together[middle:], outcome)

    def _sort(
        self, together: list[Placed], fates: list[tuple[Fate, str]], outcome: Outcome
    ) -> None:
        barred = ""
        for (position, document), (fate, reason) in zip(together, fates, strict=True):
            if fate is Fate.DONE:
                self._done.add(document.name)
            elif fate is Fate.REFUSED:
                outcome.refused[position] = reason
            elif fate is Fate.AGAIN:
                outcome.again.append((position, document))
                outcome.reason = reason
            else:
                barred = reason
        if barred:
            raise ConnectionError(barred)

    async def _call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status, and the answer if it is JSON."""
        if self._session is None:
            self._session = ClientSession(
                headers=self._headers,
                timeout=ClientTimeout(total=COMMAND_S, connect=CONNECT_S),
            )
        try:
            async with self._session.request(
                method,
                self._base + path,
                data=BytesIO(body) if body else None,
                headers=headers,
                allow_redirects=False,
            ) as response:
                data = await response.read()
        except TimeoutError:
            raise TimeoutError(f"no answer within {COMMAND_S:g} s") from None
        try:
            return response.status, orjson.loads(data)
        except orjson.JSONDecodeError:
            return response.status, None

    def _raise(self, status: int, answer: Any) -> NoReturn:
        reason = reason_in(answer, status)
        if status in REMEDIES:
            raise ConfigError(f"SINKS: {self.name}: {reason}: {REMEDIES[status]}")
        raise ConnectionError(reason)
