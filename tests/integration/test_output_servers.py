"""The servers that records go to, by real clients: what the tests of sinks take for granted."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import obstore
import psutil
import pytest
from confluent_kafka import Consumer, Producer
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError
from obstore.store import S3Store

from devservers import ElasticsearchServer, KafkaServer, PostgresServer, S3Server
from devservers.processes import wait_until
from devservers.server import Server
from devservers.unprivileged import check_reach, within_reach
from tests.support.shared_server import SharedServer, shared_server

ROOT = Path(__file__).resolve().parent.parent.parent
# Seconds for what takes far less.
DEADLINE = 30.0

AnyServer = TypeVar("AnyServer", bound=Server)


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def none_alive(processes: list[psutil.Process]) -> bool:
    # A zombie is not alive: process 1 of a container may never collect it.
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


@contextmanager
def leaving_nothing(server: AnyServer) -> Iterator[AnyServer]:
    """Start a server and stop it, after which no process of it and no directory is left."""
    with server:
        yield server
        processes, directory = family(server.pid), server.data_dir
        assert not none_alive(processes)
    assert none_alive(processes)
    assert not directory.exists()


@pytest.fixture
def name() -> str:
    """Of a table, bucket, index or topic of the test's own."""
    return f"t{secrets.token_hex(6)}"


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_postgres_wants_the_password_and_writes_durably(postgres: PostgresServer):
    async with connected(postgres.url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await connection.fetchval(f"SHOW {setting}") == "on"
    wrong = postgres.url.replace("pass", "guess", 1)
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(wrong)


async def test_a_killed_postgres_keeps_what_was_committed(postgres: PostgresServer, name: str):
    url = postgres.url
    async with connected(url) as connection:
        await connection.execute(f"CREATE TABLE {name} (number int)")
        await connection.execute(f"INSERT INTO {name} VALUES (1)")
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"INSERT INTO {name} VALUES (2)")
        postgres.kill()
        with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
            await connection.execute("SELECT 1")
        with pytest.raises(ConnectionRefusedError):
            await asyncpg.connect(url)
    postgres.start()
    assert postgres.url == url
    async with connected(url) as connection:
        rows = await connection.fetch(f"SELECT number FROM {name}")
    assert [row["number"] for row in rows] == [1]


async def test_a_restart_of_postgres_is_orderly_though_a_client_stays(postgres: PostgresServer):
    async with connected(postgres.url) as connection:
        assert await connection.fetchval("SELECT 1") == 1
        postgres.restart()
    assert "database system was shut down" in postgres.log_text


def test_a_directory_out_of_reach_of_the_server_is_named(tmp_path: Path):
    tmp_path.chmod(0o700)
    with pytest.raises(PermissionError, match=f"may not enter /.* get to {tmp_path}/data"):
        check_reach(tmp_path / "data", "daemon")


def test_programs_out_of_reach_of_the_server_are_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copies = Path(tempfile.mkdtemp())
    copies.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "program").write_text("#!")
    tmp_path.chmod(0o700)
    try:
        found = within_reach(tmp_path, ["server"], "daemon")
        assert (found / "server" / "program").read_text() == "#!"
        check_reach(found / "server" / "program", "daemon")
        assert within_reach(tmp_path, ["server"], "daemon") == found
        assert [path.name for path in copies.iterdir()] == [found.name]
    finally:
        shutil.rmtree(copies)


async def test_a_given_directory_of_postgres_is_kept():
    with leaving_nothing(PostgresServer()) as lender:
        # Not pytest's tmp_path, which is for its owner only: the server may be another user.
        directory = lender.data_dir / "lent"
        directory.mkdir()
        with PostgresServer(data_dir=directory) as server:
            async with connected(server.url) as connection:
                await connection.execute("CREATE TABLE kept (number int)")
        with PostgresServer(data_dir=directory) as again:
            async with connected(again.url) as connection:
                assert await connection.fetch("SELECT * FROM kept") == []


def s3_store(server: S3Server, bucket: str, secret_key: str = S3Server.secret_key) -> S3Store:
    return S3Store(
        bucket,
        endpoint=server.endpoint,
        access_key_id=server.access_key,
        secret_access_key=secret_key,
        region=server.region,
        client_options={"allow_http": True},
    )


def test_s3_takes_an_object_in_parts_and_keeps_it_over_a_crash(s3_server: S3Server, name: str):
    s3_server.make_bucket(name)
    store = s3_store(s3_server, name)
    content = os.urandom(20_000_000)
    result = obstore.put(store, "a/b/c.bin", content, use_multipart=True, chunk_size=5 * 1024**2)
    assert str(result["e_tag"]).endswith('-4"')
    obstore.put(store, "a/small", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/small", b"2", mode="create")
    s3_server.kill()
    s3_server.start()
    assert obstore.get(store, "a/b/c.bin").bytes() == content
    listed = {found["path"]: found["size"] for batch in obstore.list(store) for found in batch}
    assert listed == {"a/b/c.bin": len(content), "a/small": 1}


def test_s3_leaves_nothing():
    with leaving_nothing(S3Server()) as server:
        server.make_bucket("any-bucket")


def test_s3_refuses_a_wrong_key_and_an_unknown_bucket(s3_server: S3Server, name: str):
    s3_server.make_bucket(name)
    with pytest.raises(PermissionDeniedError, match="SignatureDoesNotMatch"):
        obstore.put(s3_store(s3_server, name, "wrong"), "a", b"1")
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        obstore.put(s3_store(s3_server, f"no-{name}"), "a", b"1")


def produce(address: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE) == 0


def consume(address: str, topic: str, number: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []

    def have_all() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        return len(values) == number

    try:
        assert wait_until(have_all, DEADLINE)
    finally:
        consumer.close()
    return values


@pytest.mark.jvm
def test_kafka_takes_records_and_gives_them_back(kafka_server: SharedServer, name: str):
    produce(kafka_server.address, name, b"one", b"two")
    assert consume(kafka_server.address, name, 2) == [b"one", b"two"]


@pytest.mark.proof
@pytest.mark.jvm
def test_kafka_keeps_records_over_a_restart_and_a_crash(name: str):
    with leaving_nothing(KafkaServer()) as server:
        address = server.address
        produce(address, name, b"one")
        server.restart()
        produce(address, name, b"two")
        server.kill()
        server.start()
        assert server.address == address
        assert consume(address, name, 2) == [b"one", b"two"]


def call(url: str, path: str, method: str = "GET", body: str | None = None) -> Any:
    request = urllib.request.Request(
        url + path,
        method=method,
        data=body.encode() if body is not None else None,
        headers={"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=DEADLINE) as answer:
        return json.load(answer)


@pytest.mark.jvm
def test_elasticsearch_takes_a_bulk_and_finds_its_documents(
    elasticsearch_server: SharedServer, name: str
):
    bulk = f'{{"index": {{"_index": "{name}", "_id": "1"}}}}\n{{"word": "found"}}\n'
    answer = call(elasticsearch_server.url, "/_bulk?refresh=true", "POST", bulk)
    assert answer["errors"] is False
    found = call(elasticsearch_server.url, f"/{name}/_search?q=word:found")
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ["1"]


@pytest.mark.proof
@pytest.mark.jvm
def test_elasticsearch_keeps_documents_over_a_restart_and_a_crash(name: str):
    with leaving_nothing(ElasticsearchServer()) as server:
        url = server.url
        call(url, f"/{name}/_doc/1", "PUT", '{"number": 1}')
        server.restart()
        call(url, f"/{name}/_doc/2", "PUT", '{"number": 2}')
        server.kill()
        server.start()
        assert server.url == url
        documents = [call(url, f"/{name}/_doc/{number}") for number in (1, 2)]
        assert [document["_source"]["number"] for document in documents] == [1, 2]


@pytest.mark.parametrize(
    "kind",
    [
        PostgresServer,
        S3Server,
        pytest.param(KafkaServer, marks=pytest.mark.jvm),
        pytest.param(ElasticsearchServer, marks=pytest.mark.jvm),
    ],
)
def test_no_server_outlives_a_killed_python(kind: type[Server]):
    program = (
        f"from devservers import {kind.__name__}\n"
        f"server = {kind.__name__}()\n"
        "server.start()\n"
        "print(server.pid, server.data_dir, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as python:
        assert python.stdout is not None
        pid, directory = python.stdout.readline().split()
        processes = family(int(pid))
        os.kill(python.pid, signal.SIGKILL)
    assert wait_until(lambda: none_alive(processes), DEADLINE)
    assert wait_until(lambda: not Path(directory).exists(), DEADLINE)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), DEADLINE).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.jvm
def test_a_shared_server_is_one_for_all_and_ends_after_the_last(tmp_path: Path):
    directory = tmp_path / "kafka"
    with shared_server("kafka", directory) as one:
        with shared_server("kafka", directory) as other:
            assert other == one
        assert listens(one.port)
    assert wait_until(lambda: not listens(one.port), DEADLINE)
    with shared_server("kafka", directory) as new:
        assert listens(new.port)
    assert wait_until(lambda: not listens(new.port), DEADLINE)


def test_a_shared_server_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(RuntimeError, match="not on PATH: java"),
        shared_server("kafka", tmp_path / "kafka"),
    ):
        pass
