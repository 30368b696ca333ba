"""What must be right of a healthy deployment: the guide's commands, whole and polite crawls, fetch
jobs, one crawl shared by more and fewer workers, back-pressure."""

import re
import subprocess
import time
from functools import partial

from manyhands.shared.crawl.states import CrawlState
from tests.containers.api import ENDED_WITHIN_S, Api
from tests.containers.podman import Podman
from tests.containers.project import Project
from tests.containers.web import ContainedWeb
from tests.support import doc_commands
from tests.support.compose import ROOT

CONTACT = "crawler@example.org"
DELAY_S = 0.1
# So slow that containers can come and go meanwhile.
SLOW_DELAY_S = 3.0
# Faster than the looks at the queue, slower than a flood.
PRESSED_DELAY_S = 0.5
# More jobs than this are not let into the queue `parse`, but for those under way.
PRESSURE = {"PRESSURE_SOFT_JOBS": "10", "PRESSURE_HARD_JOBS": "30"}
# Seconds without a page, many times the delay, that show that nothing is fetched any more.
STILL_S = 5.0
GUIDE = ROOT / "docs" / "NETWORK_TUNING.md"
# By the name of the service, from inside of the network: urllib sends the type of a form.
POST_FROM_INSIDE = """\
import urllib.request
print(urllib.request.urlopen("http://api-service:3000/jobs/add", b'{"a": 1, "b": 2}').status)
"""
FORGETFUL_CURL = re.compile(r"^curl ", re.MULTILINE)


def say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)


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
    pages = web.pages()
    assert len(pages) == len(set(pages)), "pages were asked for twice"
    say(f"{what}: a crawl in {time.monotonic() - began:.0f} s: {check_whole(web, DELAY_S)}")


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


def check_whole(web: ContainedWeb, delay_s: float) -> str:
    """What was visited since the mark: everything, and politely."""
    verdict, covered = web.verdict(delay_s), web.coverage()
    assert verdict.is_polite, str(verdict)
    assert covered.is_exact, str(covered)
    pages = web.pages()
    return f"{len(pages)} pages, {len(pages) - len(set(pages))} of them asked for twice; {verdict}"


def check_scale(project: Project, api: Api, web: ContainedWeb, workers: int) -> None:
    """One crawl: more workers come, and all but those of before go again, in good order."""
    service = "worker-service"
    before = set(project.running(service))
    web.mark()
    crawl = api.crawl(web.seeds, SLOW_DELAY_S, CONTACT)
    api.wait_for("the first pages", lambda: len(web.pages()) > 10)
    began = time.monotonic()
    project.up("--scale", f"{service}={workers}")
    project.wait_healthy(service)
    assert len(project.running(service)) == workers
    up_s = time.monotonic() - began
    for container in set(project.running(service)) - before:
        project.stop(container, service)
    at_this_point = len(web.pages())
    api.wait_for("more pages", lambda: len(web.pages()) > at_this_point)
    told = api.get(f"/crawls/{crawl}")
    assert told["state"] == "running", "it has ended too early to show anything"
    wait_completed(api, crawl)
    say(
        f"{len(before)} to {workers} workers in {up_s:.0f} s and back at {at_this_point} pages of "
        f"one crawl: {check_whole(web, SLOW_DELAY_S)}"
    )


def check_back_pressure(api: Api, web: ContainedWeb) -> None:
    """Nobody parses: what fetches halts at the hard limit, and goes on when somebody does. Just
    below the limit no slot is left for another page."""
    soft, hard = (int(PRESSURE[f"PRESSURE_{which}_JOBS"]) for which in ("SOFT", "HARD"))
    web.mark()
    pages = web.all_pages()
    api.post("/queues/parse/pause", None, 204)
    crawl = api.crawl(pages, PRESSED_DELAY_S, CONTACT)
    api.wait_for("a queue beyond the soft limit", lambda: api.waiting_in("parse") > soft)
    api.wait_for("fetching to halt", partial(stands_still, web))
    fetched, waiting = len(web.pages()), api.waiting_in("parse")
    assert fetched < len(pages), "all was fetched although nobody parses"
    limited_by = api.get(f"/crawls/{crawl}")["limited_by"]
    assert limited_by.startswith("waiting for parse:"), limited_by
    api.post("/queues/parse/resume", None, 204)
    wait_completed(api, crawl)
    say(
        f"parse stopped: fetching halted after {fetched} of {len(pages)} pages, {waiting} jobs for "
        f"parse at a hard limit of {hard} ({limited_by}); then {check_whole(web, PRESSED_DELAY_S)}"
    )


def stands_still(web: ContainedWeb) -> bool:
    before = len(web.pages())
    time.sleep(STILL_S)
    return len(web.pages()) == before
