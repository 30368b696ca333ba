"""BEAT, INFO and FLUSH."""

import secrets

import pytest

from manyhands.shared.errors import ServerError
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.contract.conftest import Server
from tests.contract.helpers import SETS, TARGETS, put_into, queue_size, sizes
from tests.support.raw_client import RawClient


async def test_a_beat_of_an_unknown_worker_is_refused(client: Client) -> None:
    with pytest.raises(ServerError, match=r"(?i)unknown worker"):
        await client.beat("nobody-knows-me")


async def test_a_beat_of_a_known_worker_is_answered_with_nothing_to_do(
    client: Client, server: Server
) -> None:
    wid = secrets.token_hex(8)
    with RawClient(server.url, wid=wid):
        assert await client.beat(wid, rss_kb=12_345) is None


async def test_a_worker_that_says_it_is_quiet_is_told_so_from_then_on(
    client: Client, server: Server
) -> None:
    wid = secrets.token_hex(8)
    with RawClient(server.url, wid=wid):
        assert await client.beat(wid, state="quiet") == "quiet"
        assert await client.beat(wid) == "quiet"


async def test_info_has_the_shape_that_we_rely_on(client: Client, queue: str) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))

    info = await client.info()

    assert info["faktory"]["queues"][queue] == 1
    assert info["faktory"]["total_enqueued"] == 1
    assert info["faktory"]["sets"].keys() >= set(SETS)
    for name in ("total_processed", "total_failures", "total_queues"):
        assert isinstance(info["faktory"][name], int)
    assert isinstance(info["faktory"]["tasks"]["Workers"]["size"], int)
    # Our command socket, and FETCH's own once it is used.
    assert info["server"]["connections"] >= 1
    assert info["server"]["command_count"] >= 1
    assert info["server"]["faktory_version"]


async def test_flush_deletes_queues_sets_and_counters(client: Client, queue: str) -> None:
    for target in TARGETS:
        await put_into(client, target, Job(jobtype="any", args=[], queue=queue))
    await client.push(Job(jobtype="any", args=[], queue=queue))

    await client.flush()

    info = await client.info()
    assert await sizes(client) == dict.fromkeys(SETS, 0)
    assert info["faktory"]["total_enqueued"] == 0
    assert info["faktory"]["total_processed"] == 0
    assert info["faktory"]["total_failures"] == 0


async def test_a_command_of_the_paid_edition_is_refused_and_the_connection_lives_on(
    client: Client, queue: str
) -> None:
    with pytest.raises(ServerError):
        await client.call(b'TRACK GET "some-job-id"\r\n')
    with pytest.raises(ServerError):
        await client.call(b"NONSENSE\r\n")

    await client.push(Job(jobtype="any", args=[], queue=queue))
    assert await queue_size(client, queue) == 1
