"""The backup of docs/DEPLOYMENT.md: one file has all jobs of a Faktory."""

import shutil

from devservers import FaktoryServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from tests.support.raw_client import RawClient

JOBS = 10


async def test_a_copy_of_one_file_brings_the_jobs_to_another_faktory(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    with FaktoryServer(data_dir=old) as server:
        async with Client(parse_url(server.url)) as client:
            jobs = [Job(jobtype="add", args=[number, 2]) for number in range(JOBS)]
            assert await client.push_bulk(jobs) == {}
    (new / "db").mkdir(parents=True)
    shutil.copy(old / "db" / "faktory.rdb", new / "db" / "faktory.rdb")
    with FaktoryServer(data_dir=new) as server, RawClient(server.url) as raw:
        assert raw.info()["faktory"]["queues"] == {"default": JOBS}
