"""What a deployment must survive, with nothing lost: a stop and a kill -9 in the middle of jobs or
of a crawl, a full disk, the kernel's kill at the limit of memory."""

import json
import time
from collections import Counter
from pathlib import Path

from manyhands.shared.crawl.claim import is_mark_queue
from tests.containers.api import Api
from tests.containers.checks import CONTACT, DELAY_S, check_whole, say, wait_completed
from tests.containers.disk import SmallDisk
from tests.containers.podman import Podman
from tests.containers.project import Project
from tests.containers.web import ContainedWeb

# More than are done while a worker starts or stops.
MANY_JOBS = 20_000
MANY_JOBS_FOR_OUR_BROKER = 300_000
# Of a killed worker's jobs, and until a Faktory looks for them.
GIVEN_OUT_AGAIN_WITHIN_S = 900.0
# A Faktory keeps a page that a dead worker was parsing for five minutes.
CRAWLED_AGAIN_WITHIN_S = 1200.0
# Some time for something to happen in.
TROUBLED_DELAY_S = 1.0
# Files in /tmp are memory of the container: so many of so many MiB are more than any has.
PARTS, PART_MIB = 64, 32


def check_kill_in_a_crawl(podman: Podman, api: Api, web: ContainedWeb, container: str) -> None:
    began = time.monotonic()
    web.mark()
    crawl = api.crawl(web.seeds, DELAY_S, CONTACT)
    api.wait_for("some pages", lambda: len(web.pages()) > 100)
    podman("kill", "--signal", "KILL", container)
    podman("start", container)
    wait_completed(api, crawl, CRAWLED_AGAIN_WITHIN_S)
    say(
        f"kill -9 of {container} in a crawl: completed in {time.monotonic() - began:.0f} s, "
        f"{check_whole(web, DELAY_S)}"
    )


def in_queues(state: dict[str, int]) -> int:
    """Without the mark of the state of crawls."""
    return sum(size for name, size in state.items() if not is_mark_queue(name))


def check_stop(project: Project, api: Api, worker: str, jobs: int) -> None:
    """In the middle of many jobs: each is done, or back in its queue."""
    before = api.get("/stats")["faktory"]["total_processed"]
    api.push_adds(jobs)
    project.stop(worker, "worker-service")
    state = api.get("/stats")["faktory"]
    done, waiting = state["total_processed"] - before, in_queues(state["queues"])
    assert state["sets"]["working"] == 0, state
    # What was put back is acknowledged, too, and is in its queue again.
    assert 0 < waiting <= jobs <= done + waiting, state
    say(f"stop in {jobs} jobs: {jobs - waiting} done, {waiting} in the queue, none in hand")


def check_kill(podman: Podman, api: Api, worker: str, jobs: int) -> None:
    """With what the stop has left in the queue."""
    before = api.get("/stats")["faktory"]
    api.push_adds(jobs)
    owed = in_queues(before["queues"]) + jobs
    podman("start", worker)
    api.wait_for(
        "some jobs to be done",
        lambda: api.get("/stats")["faktory"]["total_processed"] > before["total_processed"] + 100,
    )
    podman("kill", "--signal", "KILL", worker)
    state = api.get("/stats")["faktory"]
    in_hand, waiting = state["sets"]["working"], in_queues(state["queues"])
    assert waiting > 0, "all were done before the kill"
    podman("start", worker)

    def all_done() -> bool:
        state = api.get("/stats")["faktory"]
        left = in_queues(state["queues"]) + state["sets"]["working"] + state["sets"]["retries"]
        return bool(left == 0)

    api.wait_for("all jobs", all_done, GIVEN_OUT_AGAIN_WITHIN_S)
    after = api.get("/stats")["faktory"]
    done = after["total_processed"] - before["total_processed"]
    assert after["sets"]["dead"] == 0, after
    assert done >= owed, f"{done} of {owed} done"
    say(f"kill -9 with {in_hand} jobs in hand: all {owed} done")


def check_out_of_memory(podman: Podman, api: Api, web: ContainedWeb, worker: str) -> None:
    """The kernel kills what is largest in the container, at the limit that the file gives it."""
    began = time.monotonic()
    web.mark()
    crawl = api.crawl(web.seeds, TROUBLED_DELAY_S, CONTACT)
    api.wait_for("some pages", lambda: len(web.pages()) > 20)
    before = podman.oom_kills(worker)
    for part in range(PARTS):
        fill = ("dd", "if=/dev/zero", f"of=/tmp/{part}", "bs=1M", f"count={PART_MIB}")
        podman.succeeds("exec", worker, *fill)
        if not podman.is_running(worker) or podman.oom_kills(worker) > before:
            break
    else:
        raise AssertionError(f"nothing was killed by {PARTS * PART_MIB} MiB in {worker}")
    survived = podman.is_running(worker)
    if survived:
        podman("exec", worker, "sh", "-c", "rm -f /tmp/[0-9]*")
    else:
        podman("start", worker)
    wait_completed(api, crawl, CRAWLED_AGAIN_WITHIN_S)
    say(
        f"killed for its memory in a crawl ({'a process of it' if survived else 'all of it'}): "
        f"completed in {time.monotonic() - began:.0f} s, {check_whole(web, TROUBLED_DELAY_S)}"
    )


def check_full_disk(api: Api, web: ContainedWeb, disk: SmallDisk, records: Path) -> None:
    """Of the broker, the state of crawls and the records, which go to this directory."""
    began = time.monotonic()
    web.mark()
    crawl = api.crawl(web.seeds, TROUBLED_DELAY_S, CONTACT)
    api.wait_for("some pages", lambda: len(web.pages()) > 20)

    def is_refused() -> bool:
        disk.fill()
        return api.refuses_jobs()

    api.wait_for("a job to be refused", is_refused)
    fetched = len(web.pages())
    disk.free()
    wait_completed(api, crawl, CRAWLED_AGAIN_WITHIN_S)
    whole = check_whole(web, TROUBLED_DELAY_S)
    written = Counter(
        record["url"]
        for path in records.glob("pages*.ndjson")
        for record in map(json.loads, path.read_text().splitlines())
        if record.get("crawl") == crawl
    )
    assert written == Counter(set(web.pages())), "a page has no record, or two"
    say(
        f"disk full at {fetched} pages of a crawl, jobs refused: completed in "
        f"{time.monotonic() - began:.0f} s, a record of each page; {whole}"
    )
