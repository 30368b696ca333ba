"""What WORKER_STAGES, WORKER_QUEUES and the settings file make of the registered job types."""

from dataclasses import dataclass

import pytest

from manyhands.shared.crawl.messages import ALL_CRAWL_QUEUES
from manyhands.shared.errors import ConfigError
from manyhands.worker.service.stages import (
    CAPS,
    Naming,
    ProcessGroup,
    Stage,
    naming_of_fetch_jobs,
    parse_groups,
    resolve_stages,
    with_owner,
    without_a_store,
)

QUEUES = {"fetch": "fetch.*", "parse": "parse", "add": "default", "greet": "default"}
WITH_CRAWL = QUEUES | {"parsed": ALL_CRAWL_QUEUES, "links": ALL_CRAWL_QUEUES}
EVERYTHING = ProcessGroup("worker", 1, 500)


@dataclass
class Options:
    weight: int = 1
    cap: int | None = None
    queues: str | None = None
    feeds: str | None = None


def test_a_group_for_each_word():
    assert parse_groups("fetch:2x500 parse:1x80") == (
        ProcessGroup("fetch", 2, 500, ("fetch",)),
        ProcessGroup("parse", 1, 80, ("parse",)),
    )


def test_stages_that_share_processes():
    assert parse_groups("fetch+parse:3x1000") == (
        ProcessGroup("fetch+parse", 3, 1000, ("fetch", "parse")),
    )


def test_nothing_said_is_no_group():
    assert parse_groups("  ") == ()


@pytest.mark.parametrize(
    "text",
    ["fetch", "fetch:2", "fetch:x5", "fetch:2x", ":2x5", "fetch:-1x5", "fetch+:1x5", "fetch:2x5x6"],
)
def test_what_is_no_group_is_said_with_an_example(text):
    with pytest.raises(ConfigError, match="WORKER_STAGES"):
        parse_groups(text)


@pytest.mark.parametrize("text", ["fetch:0x5", "fetch:1x0", "fetch:513x1", "fetch:1x100001"])
def test_counts_have_limits(text):
    with pytest.raises(ConfigError, match="must have 1 to 512 processes of 1 to 100000 slots"):
        parse_groups(text)


@pytest.mark.parametrize(
    "text", ["fetch:1x5 fetch:1x5", "fetch+fetch:1x5", "fetch:1x5 a+fetch:1x5"]
)
def test_a_stage_is_named_once(text):
    with pytest.raises(ConfigError, match="names fetch twice"):
        parse_groups(text)


def test_without_a_word_every_queue_of_the_registered_types_is_a_stage():
    assert resolve_stages(EVERYTHING, "", QUEUES, {}) == (
        Stage("add", "default"),
        Stage("fetch", "fetch.*", feeds="parse"),
        Stage("parse", "parse"),
    )


@pytest.mark.parametrize(("queues", "weight"), [("a:3,b:1", 4), ("a,parse,b", 1), (" a , b", 1)])
def test_queues_that_are_named_are_one_stage_in_their_order(queues, weight):
    (stage,) = resolve_stages(EVERYTHING, queues, QUEUES, {})
    assert stage == Stage("worker", queues.replace(" ", ""), weight)


@pytest.mark.parametrize(
    ("queues", "stages"),
    [
        (
            "default:1,parse:1,fetch.*:1",
            [
                Stage("fetch", "fetch.*:1", 1, feeds="parse"),
                Stage("worker", "default:1,parse:1", 2),
            ],
        ),
        (
            "fetch.00:2,a:5,fetch.01:3",
            [Stage("fetch", "fetch.00:2,fetch.01:3", 5, feeds="parse"), Stage("worker", "a:5", 5)],
        ),
        ("fetch.*", [Stage("fetch", "fetch.*", feeds="parse")]),
        (
            "fetch.*,parse",
            [Stage("fetch", "fetch.*", feeds="parse"), Stage("worker", "parse", rank=1)],
        ),
        (
            "urgent,parse,warc,fetch.07,low",
            [
                Stage("worker", "urgent,parse"),
                Stage("warc", "warc", cap=CAPS["warc"], feeds="parse", rank=1),
                Stage("fetch", "fetch.07", feeds="parse", rank=2),
                Stage("worker-2", "low", rank=3),
            ],
        ),
    ],
)
def test_named_queues_whose_jobs_fill_another_are_stages_of_their_own(queues, stages):
    assert resolve_stages(EVERYTHING, queues, QUEUES, {}) == tuple(stages)


def test_the_settings_file_says_what_named_queues_fill():
    options = {
        "images": Options(queues="large", feeds="done", cap=7),
        "greet": Options(feeds="post", weight=9),
        "fetch": Options(feeds="", cap=40, weight=9),
    }
    assert resolve_stages(EVERYTHING, "large:2,default:3,fetch.*:1,b:4", QUEUES, options) == (
        Stage("fetch", "fetch.*:1", 1, cap=40),
        Stage("greet", "default:3", 3, feeds="post"),
        Stage("images", "large:2", 2, cap=7, feeds="done"),
        Stage("worker", "b:4", 4),
    )


def test_crawls_among_named_queues_need_their_handlers():
    stages = resolve_stages(EVERYTHING, "crawl.*,parse", WITH_CRAWL, {})
    assert [(stage.name, stage.feeds) for stage in stages] == [("crawl", "parse"), ("worker", "")]
    with pytest.raises(ConfigError, match=r"WORKER_QUEUES names crawl\.\*.*WORKER_HANDLERS"):
        resolve_stages(EVERYTHING, "crawl.*,parse", QUEUES, {})


def test_a_named_stage_takes_the_queue_of_its_type():
    group = ProcessGroup("parse+greet", 1, 80, ("parse", "greet"))
    assert resolve_stages(group, "", QUEUES, {}) == (
        Stage("parse", "parse"),
        Stage("greet", "default"),
    )


def test_a_stage_that_nobody_registered_is_refused_with_what_there_is():
    group = ProcessGroup("resize", 1, 80, ("resize",))
    with pytest.raises(ConfigError, match=r"'resize'.*add, fetch, greet, parse.*WORKER_HANDLERS"):
        resolve_stages(group, "", QUEUES, {})


def test_stages_and_queues_together_are_refused():
    group = ProcessGroup("parse", 1, 80, ("parse",))
    with pytest.raises(ConfigError, match="use one"):
        resolve_stages(group, "default", QUEUES, {})


def test_the_settings_file_refines_a_stage():
    options = {"fetch": Options(weight=3, cap=400, feeds="")}
    stages = resolve_stages(EVERYTHING, "", QUEUES, options)
    assert Stage("fetch", "fetch.*", weight=3, cap=400, feeds="") in stages


def test_archives_have_few_slots_unless_the_settings_file_says_otherwise():
    queues = {"warc": "warc", "export": "export"}
    export, warc = resolve_stages(EVERYTHING, "", queues, {})
    assert (warc.cap, warc.feeds) == (CAPS["warc"], "parse")
    assert (export.cap, export.feeds) == (CAPS["export"], "")
    group = ProcessGroup("warc", 1, 80, ("warc",))
    (named,) = resolve_stages(group, "", queues, {"warc": Options(cap=8)})
    assert named.cap == 8


def test_the_settings_file_can_make_a_stage_of_any_queues():
    group = ProcessGroup("images", 1, 80, ("images",))
    options = {"images": Options(queues="large:1,small:4", feeds="done")}
    assert resolve_stages(group, "", QUEUES, options) == (
        Stage("images", "large:1,small:4", feeds="done"),
    )


def test_without_a_store_a_service_that_names_no_stage_leaves_out_its_crawls():
    everything = resolve_stages(EVERYTHING, "", WITH_CRAWL, {})
    names = [stage.name for stage in without_a_store(everything, EVERYTHING)]
    assert names == [stage.name for stage in everything if stage.name != "crawl"]
    assert len(names) == len(everything) - 1


def test_a_crawl_stage_that_was_named_or_is_all_there_is_stays_and_says_what_it_needs():
    named = ProcessGroup("crawl+parse", 1, 10, ("crawl", "parse"))
    stages = resolve_stages(named, "", WITH_CRAWL, {})
    assert without_a_store(stages, named) == stages
    alone = resolve_stages(EVERYTHING, "", {"links": ALL_CRAWL_QUEUES}, {})
    assert without_a_store(alone, EVERYTHING) == alone


def owned(*stages: Stage) -> dict[str, tuple[str, int]]:
    return {stage.name: (stage.queues, stage.weight) for stage in with_owner(stages)}


@pytest.mark.parametrize("named", ["fetch", "crawl"])
def test_whoever_owns_shards_has_fetch_jobs_and_crawls(named):
    queues = {"fetch": "fetch.*", "crawl": ALL_CRAWL_QUEUES}
    assert owned(Stage(named, queues[named])) == {
        "fetch": ("fetch.*", 1),
        "crawl": (ALL_CRAWL_QUEUES, 1),
    }


def test_what_worker_queues_names_of_shards_stays_a_stage_of_its_own():
    stages = resolve_stages(EVERYTHING, "default:1,fetch.*:3,parse:2", QUEUES, {})
    assert owned(*stages) == {
        "fetch": ("fetch.*:3", 3),
        "worker": ("default:1,parse:2", 3),
        "crawl": (ALL_CRAWL_QUEUES, 1),
    }


def test_what_a_stage_of_the_settings_file_names_of_them_becomes_one():
    stage = Stage("mine", "default:1,fetch.*:3,parse:2", weight=9, cap=7, feeds="done")
    assert owned(stage) == {
        "mine": ("default:1,parse:2", 3),
        "fetch": ("fetch.*:3", 3),
        "crawl": (ALL_CRAWL_QUEUES, 1),
    }
    mine, fetch, crawl = with_owner([stage])
    assert (mine.cap, mine.feeds, fetch.feeds, crawl.feeds) == (7, "done", "parse", "parse")
    assert owned(Stage("mine", "fetch.*")).keys() == {"fetch", "crawl"}


def test_who_owns_no_shards_is_left_as_it_is():
    assert with_owner([Stage("worker", "default,parse")]) == (Stage("worker", "default,parse"),)
    assert with_owner([Stage("parse", "parse")]) == (Stage("parse", "parse"),)


def test_single_queues_of_shards_cannot_be_named():
    with pytest.raises(ConfigError, match=r"fetch\.07 .* FETCH_POLITE=false"):
        with_owner([Stage("worker", "fetch.07:1,parse:1")])


@pytest.mark.parametrize(
    ("stages", "queues", "naming"),
    [
        ("crawl:1x5 parse:1x5", "", Naming.NOT_AT_ALL),
        ("fetch+parse:1x5", "", Naming.IN_PARTICULAR),
        ("mine:1x5", "", Naming.IN_PARTICULAR),
        ("", "fetch.*", Naming.IN_PARTICULAR),
        ("", " fetch.03:1, fetch.04:2", Naming.IN_PARTICULAR),
        ("", "default,fetch.*", Naming.AMONG_OTHERS),
        ("", "default,parse,fetch.slow", Naming.NOT_AT_ALL),
        ("", "", Naming.NOT_AT_ALL),
    ],
)
def test_a_service_names_fetch_jobs_by_stage_or_queue(stages, queues, naming):
    options = {"mine": Options(queues="parse,fetch.03")}
    assert naming_of_fetch_jobs(parse_groups(stages), queues, options) is naming
