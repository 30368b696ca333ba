"""Records as rows of a real PostgreSQL: each once, whatever happens to the server on the way."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from devservers import PostgresServer, Toxiproxy
from manyhands.shared.errors import ConfigError
from manyhands.worker.records import PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.servers import postgres as sink_module
from manyhands.worker.sinks.servers.postgres import PostgresSink
from tests.support.sink_records import (
    LATER_FIELDS,
    MEGABYTE,
    full_page,
    hostile_pages,
    page,
    page_outside_of_crawls,
    plain,
    until,
    written,
)

Rows = list[asyncpg.Record]
Query = Callable[..., Awaitable[Rows]]
# So long that no compression makes it fit into an index.
LONG_ID = secrets.token_hex(20_000)


@pytest.fixture
async def schema(postgres: PostgresServer) -> str:
    name = f"test_{secrets.token_hex(4)}"
    await execute(postgres, f"CREATE SCHEMA {name}")
    return name


@pytest.fixture
def url(postgres: PostgresServer, schema: str) -> str:
    return f"{postgres.url}?search_path={schema}"


@pytest.fixture
async def sink(url: str) -> AsyncIterator[PostgresSink]:
    sink = PostgresSink(url)
    await sink.open()
    yield sink
    await sink.close()


@pytest.fixture
def query(url: str) -> Query:
    async def ask(text: str) -> Rows:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetch(text)
        finally:
            await connection.close()

    return ask


async def execute(postgres: PostgresServer, *statements: str) -> None:
    connection = await asyncpg.connect(postgres.url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def ids(query: Query, table: str = "pages") -> list[str]:
    return [row["id"] for row in await query(f"SELECT id FROM {table} ORDER BY id")]


FIRST_PAGES = """
    CREATE TABLE pages (
        id text PRIMARY KEY, crawl bigint, url text NOT NULL, visit integer,
        final_url text NOT NULL, status integer NOT NULL, content_type text NOT NULL, title text,
        language text, is_truncated boolean NOT NULL, fetched_at timestamptz NOT NULL,
        depth integer, is_indexable boolean NOT NULL, links text[] NOT NULL)"""
FIRST_EDGES = """
    CREATE VIEW edges AS
    SELECT id AS page, crawl, final_url AS source, unnest(links) AS target FROM pages"""


# What arrives


async def test_a_page_arrives_with_all_its_fields(sink: PostgresSink, query: Query):
    await sink.write([page(1)])
    [row] = await query("SELECT * FROM pages")
    assert (
        dict(row)
        == {
            "id": page(1).id,
            "crawl": 7,
            "url": "https://site.example/1",
            "visit": 1,
            "final_url": "https://site.example/1?final",
            "status": 200,
            "content_type": "text/html; charset=utf-8",
            "title": "Page 1 – ä",
            "language": "de",
            "is_truncated": False,
            "fetched_at": datetime(2026, 11, 17, 5, 44, 33, 123456, tzinfo=UTC),
            "depth": 2,
            "is_indexable": True,
            "links": [f"https://site.example/1/{link}" for link in range(3)],
        }
        | LATER_FIELDS
    )


async def test_a_page_with_every_field_arrives(sink: PostgresSink, query: Query):
    await sink.write([full_page(1)])
    [row] = await query("SELECT * FROM pages")
    said = asdict(full_page(1))
    when = datetime(2026, 11, 17, 5, 44, 33, 123456, tzinfo=UTC)
    found = dict(row)
    jsons = {name: json.loads(found[name]) for name in ("open_graph", "all_headers")}
    assert found | jsons == said | {"fetched_at": when}
    edges = await query("SELECT target, text, rel FROM edges")
    assert [tuple(edge) for edge in edges] == list(
        zip(said["links"], said["link_texts"], said["link_rels"], strict=True)
    )


async def test_lists_of_empty_texts_keep_their_length(sink: PostgresSink, query: Query):
    await sink.write([page(1, links=["https://a.example/"], link_texts=[""], link_rels=[""])])
    [row] = await query("SELECT link_texts, link_rels FROM pages")
    assert (row["link_texts"], row["link_rels"]) == ([""], [""])


async def test_a_table_of_the_first_schema_gets_the_later_columns_and_keeps_its_rows(
    url: str, query: Query
):
    await query(FIRST_PAGES)
    await query(FIRST_EDGES)
    await query(
        "INSERT INTO pages VALUES ('old', 1, 'u', 1, 'u', 200, 't', 'x', 'en', false, now(), 0, "
        "true, '{https://a.example/}')"
    )
    sink = PostgresSink(url)
    await sink.write([full_page(1)])
    await sink.close()
    rows = await query("SELECT id, schema, title, text FROM pages ORDER BY schema")
    assert [tuple(row) for row in rows] == [
        ("old", 1, "x", None),
        (full_page(1).id, 2, full_page(1).title, full_page(1).text),
    ]
    edges = await query("SELECT page, text FROM edges ORDER BY target LIMIT 1")
    assert [tuple(edge) for edge in edges] == [("old", None)]


async def test_a_user_who_may_not_change_an_old_table_is_told(
    postgres: PostgresServer, schema: str, query: Query
):
    await query(FIRST_PAGES)
    guest = await a_guest(postgres, schema)
    assert (await refusal(guest)).endswith(
        "must be owner of table pages: let the user create and alter tables, "
        "or make pages, records and edges for it"
    )


async def test_a_page_outside_of_crawls_has_nulls(sink: PostgresSink, query: Query):
    await sink.write([page_outside_of_crawls(1)])
    [row] = await query("SELECT * FROM pages")
    assert {name for name, value in row.items() if value is None} == {
        *("title", "language", "crawl", "visit", "depth"),
        *(name for name, value in LATER_FIELDS.items() if value is None),
    }
    assert (row["is_truncated"], row["is_indexable"], row["links"]) == (True, False, [])


async def test_edges_can_be_asked_for_one_by_one(sink: PostgresSink, query: Query):
    await sink.write([page(1), page(2, links=[]), page(3)])
    rows = await query("SELECT page, crawl, source, target FROM edges ORDER BY target")
    assert [tuple(row) for row in rows] == [
        (one.id, 7, one.final_url, link) for one in (page(1), page(3)) for link in one.links
    ]


@pytest.mark.parametrize(
    "body", [{"a": [1, 2.5, None, "ä"]}, [1, "two"], "text", 7, None, True, {"": {}}]
)
async def test_a_record_arrives_as_json(sink: PostgresSink, query: Query, body: Any):
    await sink.write([PlainRecord("one", body)])
    [row] = await query("SELECT id, body FROM records")
    assert (row["id"], json.loads(row["body"])) == ("one", body)


async def test_pages_and_records_of_one_batch_go_where_they_belong(
    sink: PostgresSink, query: Query
):
    await sink.write([plain(1), page(1), plain(2), page(2)])
    assert await ids(query) == [page(1).id, page(2).id]
    assert await ids(query, "records") == ["job.1", "job.2"]


async def test_a_batch_of_two_thousand_pages_arrives(sink: PostgresSink, query: Query):
    await sink.write([page(number) for number in range(2000)])
    [row] = await query("SELECT count(*) AS pages, sum(cardinality(links)) AS links FROM pages")
    assert dict(row) == {"pages": 2000, "links": 6000}


# Once


async def test_the_same_batch_twice_makes_no_second_row(sink: PostgresSink, query: Query):
    batch: list[Record] = [page(1), plain(1), page(2)]
    for _ in range(2):
        await sink.write(batch)
    assert await ids(query) == [page(1).id, page(2).id]
    assert await ids(query, "records") == ["job.1"]


async def test_an_id_that_stands_twice_in_a_batch_is_one_row(sink: PostgresSink, query: Query):
    await sink.write([page(1), plain(1), page(1), plain(1), page(2)])
    assert await ids(query) == [page(1).id, page(2).id]
    assert await ids(query, "records") == ["job.1"]


async def test_the_first_visit_of_a_page_stays_as_it_is(sink: PostgresSink, query: Query):
    await sink.write([page(1, title="first")])
    await sink.write([page(1, title="again"), page(2)])
    assert [row["title"] for row in await query("SELECT title FROM pages ORDER BY id")] == [
        *("first", "Page 2 – ä")
    ]


async def test_two_processes_with_the_same_pages_do_not_lock_each_other_out(url: str, query: Query):
    sinks = [PostgresSink(url) for _ in range(3)]
    pages = [page(number) for number in range(300)]
    orders = [pages, pages[::-1], pages[150:] + pages[:150]]
    await asyncio.gather(*(sink.write(order) for sink, order in zip(sinks, orders, strict=True)))
    assert await ids(query) == sorted(one.id for one in pages)
    for sink in sinks:
        await sink.close()


async def test_many_processes_may_start_at_once(url: str, query: Query):
    sinks = [PostgresSink(url) for _ in range(8)]
    await asyncio.gather(*(sink.open() for sink in sinks))
    await asyncio.gather(*(sink.write([page(n)]) for n, sink in enumerate(sinks)))
    assert len(await ids(query)) == 8
    for sink in sinks:
        await sink.close()


async def test_a_commit_is_on_disk_before_it_is_answered(
    postgres: PostgresServer, schema: str, sink: PostgresSink, query: Query
):
    name = f"lazy_{schema}"
    await execute(
        postgres,
        f"CREATE ROLE {name} LOGIN PASSWORD 'lazy' IN ROLE manyhands",
        f"ALTER ROLE {name} SET synchronous_commit TO off",
        f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {name}",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {name}",
    )
    lazy = PostgresSink(
        f"postgres://{name}:lazy@127.0.0.1:{postgres.port}/postgres?search_path={schema}"
    )
    await lazy.open()
    assert lazy._connection is not None
    assert await lazy._connection.fetchval("SHOW synchronous_commit") == "on"
    await lazy.write([page(1)])
    assert await ids(query) == [page(1).id]
    await lazy.close()


# Hostile text


async def test_hostile_pages_arrive(sink: PostgresSink, query: Query):
    await sink.write(hostile_pages())
    rows = {row["id"].removeprefix("hostile."): row for row in await query("SELECT * FROM pages")}
    assert rows["nul"]["title"] == "beforeafter"
    assert rows["half a pair"]["title"] == "before\ufffdafter"
    assert rows["beyond the BMP"]["title"] == "\U0001f577 \U0010fffd"
    assert rows["quotes"]["title"] == "'\"\\\\x00 \\N \t \n ; DROP TABLE pages; --"
    assert len(rows["long"]["title"]) == MEGABYTE // 2
    assert len(rows["url"]["url"]) == 8192 + len("https://site.example/")
    assert rows["url"]["links"] == [rows["url"]["url"]]
    assert rows["links"]["links"] == [f"https://l.example/{n}" for n in range(6000)]
    assert (rows["type"]["content_type"], rows["type"]["language"]) == ("text/html", "\ufffd")


async def test_hostile_text_in_a_record_arrives(sink: PostgresSink, query: Query):
    body = {"nul\0": ["a\0b", {"half": "\ud83d"}], "seems one": "\\u0000", "emoji": "\U0001f577"}
    await sink.write([PlainRecord("one", body)])
    [row] = await query("SELECT body FROM records")
    assert json.loads(row["body"]) == {
        "nul": ["ab", {"half": "\ufffd"}],
        "seems one": "\\u0000",
        "emoji": "\U0001f577",
    }


# What can never be taken


async def test_rows_that_the_table_cannot_take_are_refused_by_their_place(
    sink: PostgresSink, query: Query
):
    batch: list[Record] = [
        page(1),
        page(2, id=LONG_ID),
        plain(1),
        page(3, id="with\0nul"),
        page(4, status=2**40),
        PlainRecord("half\ud800", 1),
        page(5, fetched_at="yesterday"),
        page(6),
        PlainRecord("deep", deep(2000)),
        PlainRecord("no JSON", {1, 2}),
    ]
    reasons: dict[int, str] = {}
    left = dict(enumerate(batch))
    # What cannot even be sent is told first; then what the server says.
    while left:
        try:
            await sink.write(list(left.values()))
        except RecordsRefused as refused:
            places = list(left)
            reasons |= {places[at]: reason for at, reason in refused.reasons.items()}
            left = {at: left[at] for at in places if at not in reasons}
        else:
            break
    assert sorted(reasons) == [1, 3, 4, 5, 6, 8, 9]
    assert "index" in reasons[1]
    assert "0x00" in reasons[3]
    assert "range" in reasons[4]
    assert "surrogates" in reasons[5]
    assert "isoformat" in reasons[6]
    assert all("\n" not in reason and len(reason) <= 300 for reason in reasons.values())
    assert await ids(query) == [page(1).id, page(6).id]
    assert await ids(query, "records") == ["job.1"]


async def test_one_refused_row_of_many_is_found(sink: PostgresSink, query: Query):
    batch = [page(number) for number in range(1000)]
    batch[617] = page(617, id=LONG_ID)
    with pytest.raises(RecordsRefused) as refused:
        await sink.write(batch)
    assert list(refused.value.reasons) == [617]
    assert await ids(query) == []
    del batch[617]
    await sink.write(batch)
    assert len(await ids(query)) == 999


async def test_a_constraint_of_the_user_refuses_rows_too(sink: PostgresSink, query: Query):
    await query("ALTER TABLE pages ADD CHECK (status < 500)")
    with pytest.raises(RecordsRefused, match="check constraint") as refused:
        await sink.write([page(1), page(2, status=503)])
    assert list(refused.value.reasons) == [1]


def deep(levels: int) -> Any:
    body: Any = []
    for _ in range(levels):
        body = [body]
    return body


# Faults


async def test_rows_outlive_a_server_that_is_killed(
    postgres: PostgresServer, sink: PostgresSink, query: Query
):
    await sink.write([page(1)])
    postgres.kill()
    with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
        await sink.write([page(1), page(2)])
    postgres.start()
    await sink.write([page(1), page(2)])
    assert await ids(query) == [page(1).id, page(2).id]


async def test_a_restart_between_two_batches_is_got_over(
    postgres: PostgresServer, sink: PostgresSink, query: Query
):
    await sink.write([page(1)])
    await asyncio.to_thread(postgres.restart)
    assert await written(sink, [page(2)]) <= 2
    assert await ids(query) == [page(1).id, page(2).id]


async def test_a_server_killed_in_mid_batch_leaves_nothing_half_done(
    postgres: PostgresServer, sink: PostgresSink, url: str, query: Query
):
    batch: list[Record] = [*(page(number) for number in range(50)), plain(1)]
    locker = await asyncpg.connect(url)
    await locker.execute("BEGIN; LOCK TABLE records")
    write = asyncio.create_task(sink.write(batch))
    # The pages are in by then, and the records wait for the lock.
    await until(lambda: is_somebody_waiting(query))
    postgres.kill()
    with pytest.raises((OSError, asyncpg.PostgresError)):
        await write
    locker.terminate()
    postgres.start()
    assert await ids(query) == []
    await sink.write(batch)
    assert len(await ids(query)) == 50
    assert await ids(query, "records") == ["job.1"]


async def test_a_commit_whose_answer_was_lost_is_no_second_row(
    postgres: PostgresServer, toxiproxy: Toxiproxy, schema: str, query: Query
):
    proxy = toxiproxy.proxy(postgres.port)
    sink = PostgresSink(f"{postgres.url_at(proxy.port)}?search_path={schema}")
    await sink.open()
    proxy.add_toxic("latency", latency=500)
    write = asyncio.create_task(sink.write([page(1), page(2)]))
    await until(lambda: ids(query))
    await asyncio.to_thread(proxy.cut)
    proxy.remove_toxics()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await write
    await sink.write([page(1), page(2), page(3)])
    assert await ids(query) == [page(1).id, page(2).id, page(3).id]
    await sink.close()


async def test_a_server_that_is_killed_again_and_again_gets_every_page_once(
    postgres: PostgresServer, sink: PostgresSink, query: Query
):
    done = 0

    async def killer() -> None:
        for seen in (2, 7, 13):
            await until(partial(has_done, seen))
            await asyncio.to_thread(postgres.kill)
            await asyncio.to_thread(postgres.start)

    async def has_done(seen: int) -> bool:
        return done >= seen

    killing = asyncio.create_task(killer())
    attempts = 0
    while done < 20 or not killing.done():
        batch = [page(number) for number in range(done * 200, done * 200 + 200)]
        attempts += await written(sink, batch)
        done += 1
    await killing
    assert attempts > done
    assert await ids(query) == sorted(page(number).id for number in range(done * 200))


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
async def test_a_server_that_falls_silent_is_given_up_in_time(
    postgres: PostgresServer,
    toxiproxy: Toxiproxy,
    schema: str,
    query: Query,
    monkeypatch: pytest.MonkeyPatch,
    stream: Any,
):
    proxy = toxiproxy.proxy(postgres.port)
    sink = PostgresSink(f"{postgres.url_at(proxy.port)}?search_path={schema}")
    await sink.open()
    monkeypatch.setattr(sink_module, "COMMAND_S", 0.3)
    monkeypatch.setattr(sink_module, "CONNECT_S", 0.3)
    proxy.add_toxic("timeout", stream=stream, timeout=0)
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"no answer within 0\.3 s"):
            await sink.write([page(1)])
    proxy.remove_toxics()
    monkeypatch.undo()
    await sink.write([page(1)])
    assert await ids(query) == [page(1).id]
    await sink.close()


async def test_a_write_that_is_cancelled_leaves_a_sink_that_can_be_used(
    sink: PostgresSink, url: str, query: Query
):
    locker = await asyncpg.connect(url)
    await locker.execute("BEGIN; LOCK TABLE pages")
    write = asyncio.create_task(sink.write([page(1)]))
    await until(lambda: is_somebody_waiting(query))
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    await locker.close()
    await sink.write([page(2), page(1)])
    assert await ids(query) == [page(1).id, page(2).id]


async def is_somebody_waiting(query: Query) -> bool:
    return bool(await query("SELECT 1 FROM pg_locks WHERE NOT granted"))


# Settings that are wrong


async def refusal(url: str) -> str:
    sink = PostgresSink(url)
    with pytest.raises(ConfigError) as refused:
        await sink.open()
    text = str(refused.value)
    assert "\n" not in text
    return text


async def test_a_wrong_password_is_told(postgres: PostgresServer):
    place = f"127.0.0.1:{postgres.port}/postgres"
    assert await refusal(f"postgres://manyhands:s3cret@{place}") == (
        f"SINKS: postgres://{place}: password authentication failed for user "
        '"manyhands": check user and password, with special characters URL-escaped'
    )


async def test_a_database_that_is_not_there_is_told(postgres: PostgresServer):
    login = postgres.url.rpartition("/")[0]
    assert await refusal(f"{login}/nosuch") == (
        f'SINKS: postgres://127.0.0.1:{postgres.port}/nosuch: database "nosuch" does not exist: '
        "create it, or name another one"
    )


async def test_a_schema_that_is_not_there_is_told(postgres: PostgresServer):
    assert await refusal(f"{postgres.url}?search_path=nosuch") == (
        f"SINKS: postgres://127.0.0.1:{postgres.port}/postgres: no schema has been selected to "
        "create in: create the schema that the user's search_path names"
    )


async def test_a_user_who_may_not_create_tables_is_told(postgres: PostgresServer, schema: str):
    guest = await a_guest(postgres, schema)
    assert (await refusal(guest)).endswith(
        f"permission denied for schema {schema}: let the user create and alter tables, "
        "or make pages, records and edges for it"
    )


async def test_a_user_who_may_only_insert_can_be_given_tables(
    postgres: PostgresServer, schema: str, sink: PostgresSink, query: Query
):
    guest = PostgresSink(await a_guest(postgres, schema))
    await guest.write([page(1), plain(1)])
    await guest.close()
    assert await ids(query) == [page(1).id]


async def a_guest(postgres: PostgresServer, schema: str) -> str:
    await execute(
        postgres,
        f"CREATE ROLE guest_{schema} LOGIN PASSWORD '{schema}'",
        f"GRANT USAGE ON SCHEMA {schema} TO guest_{schema}",
        f"GRANT INSERT, SELECT ON ALL TABLES IN SCHEMA {schema} TO guest_{schema}",
    )
    place = f"127.0.0.1:{postgres.port}/postgres"
    return f"postgres://guest_{schema}:{quote(schema)}@{place}?search_path={schema}"


async def test_tables_that_are_not_ours_are_told(url: str, query: Query):
    await query("CREATE TABLE pages (id serial PRIMARY KEY, book text)")
    assert (await refusal(url)).endswith(
        'column "url" of relation "pages" does not exist: the tables there are not ours: '
        "name another database, or a schema with ?search_path="
    )


async def test_an_option_that_is_wrong_is_told(postgres: PostgresServer):
    assert "`sslmode` parameter must be one of" in await refusal(f"{postgres.url}?sslmode=maybe")
    assert 'unrecognized configuration parameter "tabel"' in await refusal(
        f"{postgres.url}?tabel=x"
    )


async def test_a_server_that_is_not_there_is_tried_again():
    sink = PostgresSink("postgres://user:s3cret@127.0.0.1:1/db")
    with pytest.raises(OSError, match="Connect call failed"):
        await sink.open()
    with pytest.raises(OSError, match="Connect call failed"):
        await sink.write([page(1)])
    await sink.close()
