"""What is done with the compose files, and seen from outside of the containers."""

import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from loadtest.web.synthetic_web import WebSpec
from manyhands.api.keys import new_key
from manyhands.shared.crawl.claim import is_mark_queue
from manyhands.shared.crawl.states import CrawlState
from tests.containers.api import ENDED_WITHIN_S, Api
from tests.containers.podman import Podman
from tests.containers.project import Project
from tests.containers.web import ContainedWeb
from tests.support import doc_commands
from tests.support.compose import ALL_IN_ONE, ROOT, SERVER, WORKER

CONTACT = "crawler@example.org"
DELAY_S = 0.1
WEB = WebSpec(hosts=20, pages=400, is_on_network=True)
# More than are done while a worker starts or stops.
MANY_JOBS = 20_000
MANY_JOBS_FOR_OUR_BROKER = 300_000
# Of a killed worker's jobs, and until a Faktory looks for them.
GIVEN_OUT_AGAIN_WITHIN_S = 300.0
# A Faktory keeps a page that a dead worker was parsing for five minutes.
CRAWLED_AGAIN_WITHIN_S = 600.0
# Nothing that takes longer than the run.
PATIENT = {"CRAWL_RETRY_S": "1", "FETCH_TIMEOUT_S": "5", "FETCH_CONTACT": CONTACT}
GUIDE = ROOT / "docs" / "NETWORK_TUNING.md"
# By the name of the service, from inside of the network: urllib sends the type of a form.
POST_FROM_INSIDE = """\
import urllib.request
print(urllib.request.urlopen("http://api-service:3000/jobs/add", b'{"a": 1, "b": 2}').status)
"""
FORGETFUL_CURL = re.compile(r"^curl ", re.MULTILINE)


def say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)


@contextmanager
def web_on(podman: Podman, networks: list[str]) -> Iterator[ContainedWeb]:
    web = ContainedWeb(podman, networks, WEB)
    try:
        yield web
    finally:
        web.stop()


def all_in_one(podman: Podman, directory: Path) -> None:
    names = ("faktory", "api-service", "worker-service")
    project = Project(
        podman, ALL_IN_ONE, "all-in-one", directory / "all-in-one", settings=PATIENT, secrets={}
    )
    api = Api("http://localhost:3000")
    try:
        with web_on(podman, [project.network]) as web:
            project.set(PATIENT | web.settings(project.network))
            worker = start(project, names, web)
            run_guide(project.containers("api-service")[0], podman)
            check_crawl(api, web, "one worker")
            check_fetch_jobs(api, web)
        check_stop(project, api, worker, MANY_JOBS)
        check_kill(podman, api, worker, MANY_JOBS)
    finally:
        project.remove()


def embedded(podman: Podman, directory: Path) -> None:
    """All in one on our broker: what a worker had in hand is given back as soon as it is gone."""
    names = ("broker", "api-service", "worker-service")
    settings = PATIENT | {
        "COMPOSE_PROFILES": "embedded",
        "FAKTORY_REPLICAS": "0",
        "FAKTORY_URL": "tcp://:manyhands@broker:7419",
    }
    project = Project(
        podman, ALL_IN_ONE, "embedded", directory / "embedded", settings=settings, secrets={}
    )
    api = Api("http://localhost:3000")
    try:
        with web_on(podman, [project.network]) as web:
            project.set(settings | web.settings(project.network))
            worker = start(project, names, web)
            assert project.containers("faktory") == []
            check_crawl(api, web, "our broker")
            (broker,) = project.containers("broker")
            check_kill_in_a_crawl(podman, api, web, worker, project.network)
            check_kill_in_a_crawl(podman, api, web, broker, project.network)
        check_stop(project, api, worker, MANY_JOBS_FOR_OUR_BROKER)
        check_kill(podman, api, worker, MANY_JOBS_FOR_OUR_BROKER)
    finally:
        project.remove()


def start(project: Project, names: tuple[str, ...], web: ContainedWeb) -> str:
    """The one worker."""
    project.up()
    project.wait_healthy(*names)
    for service in names:
        project.check_limits(service)
    (worker,) = project.containers("worker-service")
    web.lead(worker, project.network)
    say(f"{project.name}: up and healthy, with the limits of the file")
    return worker


def several_machines(podman: Podman, directory: Path) -> None:
    """One server and two worker machines: each a project with a network of its own."""
    passwords = {name: secrets.token_hex(32) for name in ("faktory-password", "postgres-password")}
    key, entry = new_key("operator", "ingest+read+admin")
    server = Project(
        podman,
        SERVER,
        "server",
        directory / "server",
        settings=PATIENT | {"API_KEYS": entry},
        secrets=passwords,
    )
    workers = [
        Project(podman, WORKER, name, directory / name, settings={}, secrets=passwords)
        for name in ("worker-1", "worker-2")
    ]
    api = Api("http://localhost:3000", key)
    try:
        server.up()
        server.wait_healthy("faktory", "postgres", "api-service")
        for service in ("faktory", "postgres", "api-service"):
            server.check_limits(service)
        say("server: up and healthy, with the limits of the file")
        networks = [project.network for project in workers]
        with web_on(podman, networks) as web:
            for project in workers:
                # The machine's own address, where the ports of the server are published.
                address = {"FAKTORY_SERVER_IP": project.gateway}
                project.set(PATIENT | address | web.settings(project.network))
                project.up("--scale", "worker-service=2")
            for project in workers:
                project.wait_healthy("worker-service")
                for container in project.containers("worker-service"):
                    web.lead(container, project.network)
            say("two worker machines with two containers each: up and healthy")
            check_crawl(api, web, "1 server, 2 x 2 workers")
            check_fetch_jobs(api, web)
            first = workers[0].containers("worker-service")[0]
            check_kill_in_a_crawl(podman, api, web, first, workers[0].network)
        stop_all_but(first, workers)
        check_stop(workers[0], api, first, MANY_JOBS)
        check_kill(podman, api, first, MANY_JOBS)
    finally:
        for project in (*workers, server):
            project.remove()


def stop_all_but(container: str, projects: list[Project]) -> None:
    for project in projects:
        for other in project.containers("worker-service"):
            if other != container:
                project.stop(other, "worker-service")


def run_guide(api_container: str, podman: Podman) -> None:
    """The commands of the tuning guide that ask the API: from the host as they stand there, and the
    first one from inside of the network."""
    asked = [
        command for command in doc_commands.commands(GUIDE) if "127.0.0.1:3000" in command.text
    ]
    assert asked
    for command in asked:
        text = FORGETFUL_CURL.sub("curl --fail-with-body ", command.text)
        subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, capture_output=True)
    status = podman("exec", api_container, "python", "-c", POST_FROM_INSIDE)
    assert status == "202", status
    say(f"the guide's {len(asked)} commands, and a POST to http://api-service:3000")


def check_crawl(api: Api, web: ContainedWeb, what: str) -> None:
    began = time.monotonic()
    web.mark()
    crawl = api.crawl(web.seeds, DELAY_S, CONTACT)
    wait_completed(api, crawl)
    verdict, covered = web.verdict(DELAY_S), web.coverage()
    assert verdict.is_polite, str(verdict)
    assert covered.is_exact, str(covered)
    pages = web.pages()
    assert len(pages) == len(set(pages)), "pages were asked for twice"
    say(f"{what}: a crawl of {len(pages)} pages in {time.monotonic() - began:.0f} s; {verdict}")


def wait_completed(api: Api, crawl: int, within_s: float = ENDED_WITHIN_S) -> None:
    def has_ended() -> bool:
        return CrawlState(api.get(f"/crawls/{crawl}")["state"]).is_final

    api.wait_for(f"the end of crawl {crawl}", has_ended, within_s)
    told = api.get(f"/crawls/{crawl}")
    assert told["state"] == CrawlState.COMPLETED, told


def check_fetch_jobs(api: Api, web: ContainedWeb) -> None:
    """Of one host, one after the other."""
    web.mark()
    jobs = [api.post("/jobs/fetch", {"url": web.seeds[0]})["jid"] for _ in range(5)]
    for jid in jobs:
        api.wait_for(f"fetch job {jid}", partial(api.is_fetched, jid))
    verdict = web.verdict(DELAY_S)
    assert verdict.is_polite, str(verdict)
    assert len(web.pages()) == len(jobs)
    say(f"{len(jobs)} fetch jobs of one host: done, one at a time")


def check_kill_in_a_crawl(
    podman: Podman, api: Api, web: ContainedWeb, container: str, network: str
) -> None:
    began = time.monotonic()
    web.mark()
    crawl = api.crawl(web.seeds, DELAY_S, CONTACT)
    api.wait_for("some pages", lambda: len(web.pages()) > 100)
    podman("kill", "--signal", "KILL", container)
    podman("start", container)
    web.lead(container, network)
    wait_completed(api, crawl, CRAWLED_AGAIN_WITHIN_S)
    verdict, covered = web.verdict(DELAY_S), web.coverage()
    pages = web.pages()
    twice = len(pages) - len(set(pages))
    assert verdict.is_polite, str(verdict)
    assert covered.is_exact, str(covered)
    say(
        f"kill -9 of {container} in a crawl: completed in {time.monotonic() - began:.0f} s, "
        f"nothing missed, {twice} pages asked for twice"
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
