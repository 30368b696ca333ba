"""`manyhands worker config`: what it prints, and what it does not."""

from pathlib import Path

import pytest
import yaml

from manyhands.shared.masking import MASK
from manyhands.shared.settings.loading import load
from manyhands.worker.commands.config import config_text
from manyhands.worker.commands.parser import make_parser
from manyhands.worker.service.settings import SECTIONS
from tests.support.settings_place import SettingsPlace

SECRET = "hunter2"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsPlace:
    return SettingsPlace(tmp_path, monkeypatch)


def printed(*options: str) -> str:
    arguments = make_parser().parse_args(["config", *options])
    return config_text(load(SECTIONS, arguments), with_origin=arguments.origin)


def test_it_prints_every_value_of_every_section(place):
    place.yaml('stages: {fetch: {cap: 5}, "odd: name": {queues: a}}')
    content = yaml.safe_load(printed())
    settings = place.load().settings
    assert set(content) == set(SECTIONS)
    assert content["worker"] == settings.worker.model_dump()
    assert content["pressure"] == settings.pressure.model_dump()
    assert content["allow"] == {"nets": []}
    assert content["stages"]["fetch"] == {"weight": 1, "cap": 5, "queues": None, "feeds": None}
    assert content["stages"]["odd: name"]["queues"] == "a"


def test_what_it_prints_is_a_file_that_sets_the_same(place):
    place.yaml("stages: {fetch: {weight: 3}, 'null': {cap: 1}}\nallow: {nets: [10.0.0.0/8]}")
    place.environment(
        WORKER_QUEUES="a:3,b:1",
        WORKER_HANG_TIMEOUT="inf",
        WORKER_HANDLERS="odd # \"name'\n: é 🙂",
        SINKS="jsonl:/data/pages.ndjson",
    )
    settings = place.load(sections=SECTIONS).settings
    text = printed("--origin")
    place.environment(WORKER_QUEUES="", WORKER_HANG_TIMEOUT="", WORKER_HANDLERS="", SINKS="")
    place.yaml(text)
    assert place.load(sections=SECTIONS).settings == settings


def test_it_says_where_each_value_came_from(place):
    place.yaml("worker: {idle_fetches: 7}\nstages:\n  fetch:\n    weight: 3\n")
    place.dotenv("# mine\nWORKER_HANDLERS=jobs\n")
    place.environment(WORKER_PROCESSES="2")
    place.file("url", "tcp://there")
    lines = printed("--origin", "--worker-queues", "a", "--faktory-url-file", "url").splitlines()
    for line in (
        '  url: "tcp://there"  # command line --faktory-url-file, url',
        '  queues: "a"  # command line --worker-queues',
        "  processes: 2  # environment WORKER_PROCESSES",
        '  handlers: "jobs"  # .env line 2',
        "  idle_fetches: 7  # manyhands.yaml line 1",
        "    weight: 3  # manyhands.yaml line 4",
        "    cap: null  # default",
        "  concurrency: 500  # default",
    ):
        assert line in lines
    assert all("#" in line or line.endswith(":") for line in lines)


def test_without_being_asked_it_does_not(place):
    assert "#" not in printed("--worker-queues", "a")


@pytest.mark.parametrize(
    "url",
    [
        f"tcp://:{SECRET}@host:7419",
        f"tcp+tls://user:{SECRET}@host:7419",
        f"tcp://:{SECRET}/@{SECRET}@host:7419",
        f"tcp://:{SECRET}\n{SECRET}@host:7419",
        f":{SECRET}@host:7419",
    ],
)
def test_no_password_of_a_url_is_shown(place, url):
    text = printed("--origin", "--faktory-url", url, "--faktory-web-url", url)
    assert SECRET not in text
    content = yaml.safe_load(text)["faktory"]
    for shown in (content["url"], content["web_url"]):
        assert shown.endswith(f"{MASK}@host:7419")


def test_a_url_without_a_password_is_shown_as_it_is(place):
    content = yaml.safe_load(printed("--faktory-url", "tcp+tls://host:7419"))
    assert content["faktory"]["url"] == "tcp+tls://host:7419"
