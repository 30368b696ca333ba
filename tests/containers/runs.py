"""Each run: a compose file as it is shipped, or the README's command, in containers, and what is
looked at from outside."""

import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from loadtest.web.synthetic_web import WebSpec
from manyhands.api.keys import new_key
from tests.containers.api import Api
from tests.containers.checks import (
    CONTACT,
    PRESSURE,
    check_back_pressure,
    check_crawl,
    check_fetch_jobs,
    check_scale,
    run_guide,
    say,
)
from tests.containers.disk import SmallDisk
from tests.containers.outside import Outside
from tests.containers.podman import FILES, Podman
from tests.containers.project import Project
from tests.containers.troubles import (
    MANY_JOBS,
    MANY_JOBS_FOR_OUR_BROKER,
    check_full_disk,
    check_kill,
    check_kill_in_a_crawl,
    check_out_of_memory,
    check_stop,
)
from tests.containers.web import ContainedWeb
from tests.support import doc_commands
from tests.support.compose import ALL_IN_ONE, ROOT, SERVER, WORKER

WEB = WebSpec(hosts=20, pages=400, is_on_network=True)
# Nothing that takes longer than the run.
PATIENT = {"CRAWL_RETRY_S": "1", "FETCH_TIMEOUT_S": "5", "FETCH_CONTACT": CONTACT}
# Between the server's machine and the workers'.
ROUND_TRIP_MS = 50.0
# What workers need of the server: jobs, and the state of crawls.
SERVER_PORTS = (7419, 5432)
OUR_USER = 10001
# Where a container is that is told of no network.
DEFAULT_NETWORK = "podman"


@contextmanager
def web_on(outside: Outside) -> Iterator[ContainedWeb]:
    web = ContainedWeb(outside, WEB)
    try:
        yield web
    finally:
        web.stop()


def one_container(podman: Podman, directory: Path) -> None:
    """The README's command for those who have nothing but podman or Docker."""
    (command,) = [
        command
        for command in doc_commands.commands(ROOT / "README.md")
        if "podman run" in command.text
    ]
    with Outside(podman, [DEFAULT_NETWORK]) as outside, web_on(outside) as web:
        settings = web.settings(DEFAULT_NETWORK) | {"FETCH_CONTACT": CONTACT}
        told = " ".join(f"--env {name}={each}" for name, each in settings.items())
        run = f"podman run --ulimit {FILES} {told}"
        text = command.text.replace("podman run", run).replace("https://example.org", web.seeds[0])
        began = time.monotonic()
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", text],
                env=podman.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        while not (pages := web.pages()) and process.poll() is None:
            time.sleep(0.05)
        first_s = time.monotonic() - began
        code = process.wait(timeout=300)
        said = (directory / "output").read_text(errors="replace")
        assert pages and code == 0, f"exit code {code}:\n{said}"
        say(
            f"the README's command: its first page after {first_s:.1f} s, {len(web.pages())} in all"
        )
        podman("volume", "rm", "manyhands")


def all_in_one(podman: Podman, directory: Path) -> None:
    names = ("faktory", "api-service", "worker-service")
    settings = PATIENT | PRESSURE
    project = Project(
        podman, ALL_IN_ONE, "all-in-one", directory / "all-in-one", settings=settings, secrets={}
    )
    api = Api("http://localhost:3000")
    try:
        with Outside(podman, [project.network]) as outside, web_on(outside) as web:
            project.set(settings | web.settings(project.network))
            worker = start(project, names)
            run_guide(project.containers("api-service")[0], podman)
            check_crawl(api, web, "one worker")
            check_fetch_jobs(api, web)
            check_back_pressure(api, web)
            check_scale(project, api, web, 4)
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
    disk = SmallDisk(directory / "disk", OUR_USER)
    places = {name: disk.directory(name) for name in ("broker-data", "worker-data")}
    for name, place in places.items():
        project.use_directory(name, place)
    try:
        with Outside(podman, [project.network]) as outside, web_on(outside) as web:
            project.set(settings | web.settings(project.network))
            worker = start(project, names)
            assert project.containers("faktory") == []
            check_crawl(api, web, "our broker")
            (broker,) = project.containers("broker")
            check_kill_in_a_crawl(podman, api, web, worker)
            check_kill_in_a_crawl(podman, api, web, broker)
            check_full_disk(api, web, disk, places["worker-data"])
            check_out_of_memory(podman, api, web, worker)
        check_stop(project, api, worker, MANY_JOBS_FOR_OUR_BROKER)
        check_kill(podman, api, worker, MANY_JOBS_FOR_OUR_BROKER)
    finally:
        project.remove()
        disk.remove()


def object_storage(podman: Podman, directory: Path) -> None:
    """The profile `s3`, with the settings that its file shows."""
    settings = PATIENT | {
        "COMPOSE_PROFILES": "s3",
        "SINKS": "warc+s3://manyhands/pages?spool=/var/lib/manyhands/spool",
        "AWS_ENDPOINT_URL": "http://s3:7070",
        "AWS_ACCESS_KEY_ID": "manyhands",
        "AWS_SECRET_ACCESS_KEY": "manyhands",
        "AWS_REGION": "us-east-1",
    }
    project = Project(
        podman, ALL_IN_ONE, "storage", directory / "storage", settings=settings, secrets={}
    )
    bucket = directory / "bucket"
    bucket.mkdir()
    project.use_directory("s3-data", bucket)
    api = Api("http://localhost:3000")
    try:
        with Outside(podman, [project.network]) as outside, web_on(outside) as web:
            project.set(settings | web.settings(project.network))
            worker = start(project, ("s3", "faktory", "api-service", "worker-service"))
            check_crawl(api, web, "into a bucket")
            # It uploads what it has.
            project.stop(worker, "worker-service")
            captured = Counter(
                record.rec_headers.get_header("WARC-Target-URI")
                for path in bucket.rglob("*.warc.gz")
                for record in ArchiveIterator(BytesIO(path.read_bytes()))
                if record.rec_type == "response"
            )
            assert captured == Counter(web.pages()), "the bucket has other pages than the web gave"
            say(f"the bucket has {len(captured)} pages, each once")
    finally:
        project.remove()


def start(project: Project, names: tuple[str, ...]) -> str:
    """The one worker."""
    project.up()
    project.wait_healthy(*names)
    for service in names:
        project.check_limits(service)
    (worker,) = project.containers("worker-service")
    say(f"{project.name}: up and healthy, with the limits of the file")
    return worker


def several_machines(podman: Podman, directory: Path) -> None:
    """One server and two worker machines: each a project with a network of its own, and the server
    far away from the workers."""
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
    first = workers[0]
    api = Api("http://localhost:3000", key)
    try:
        server.up()
        server.wait_healthy("faktory", "postgres", "api-service")
        for service in ("faktory", "postgres", "api-service"):
            server.check_limits(service)
        say("server: up and healthy, with the limits of the file")
        networks = [project.network for project in workers]
        with (
            Outside(podman, networks) as outside,
            # The machine's own address, where the ports of the server are published.
            outside.far_away(first.gateway, SERVER_PORTS, ROUND_TRIP_MS),
            web_on(outside) as web,
        ):
            for project in workers:
                address = {"FAKTORY_SERVER_IP": outside.address(project.network)}
                project.set(PATIENT | address | web.settings(project.network))
                project.up("--scale", "worker-service=2")
            for project in workers:
                project.wait_healthy("worker-service")
            say(f"two worker machines, two containers each, {ROUND_TRIP_MS:.0f} ms away: healthy")
            check_crawl(api, web, "1 server, 2 x 2 workers")
            check_fetch_jobs(api, web)
            worker = first.containers("worker-service")[0]
            check_kill_in_a_crawl(podman, api, web, worker)
            stop_all_but(worker, workers)
            check_scale(first, api, web, 3)
            check_stop(first, api, worker, MANY_JOBS)
            check_kill(podman, api, worker, MANY_JOBS)
    finally:
        for project in (*workers, server):
            project.remove()


def stop_all_but(container: str, projects: list[Project]) -> None:
    for project in projects:
        for other in project.running("worker-service"):
            if other != container:
                project.stop(other, "worker-service")


RUNS = {
    "one-container": one_container,
    "all-in-one": all_in_one,
    "embedded": embedded,
    "object-storage": object_storage,
    "several-machines": several_machines,
}
