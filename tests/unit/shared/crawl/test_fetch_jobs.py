"""A fetch job as a URL of no crawl: its keys, and the jobs that are made of it."""

from typing import Any

import pytest

from manyhands.shared.crawl.fetch_jobs import (
    FetchJob,
    back_off_s,
    cause_of,
    cause_to_tell,
    key_of,
)
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.errors import InvalidJob
from manyhands.shared.jobs import Job
from manyhands.shared.urls import shard_queue

URL, TARGET = "http://example.com/a", "https://other.example/b"
SHARDS = 8


def sent(**more: Any) -> dict[str, Any]:
    job = Job(jobtype="fetch", args=[URL], jid="job-of-a-producer", retry=3, **more)
    return job.to_wire()


def as_fetched(job: Job) -> FetchJob:
    """As the owner of its queue reads it."""
    wire = job.to_wire()
    return FetchJob.of(wire, wire["custom"]["mh"]["id"], job.args[0])


def test_what_is_kept_is_what_its_producer_sent():
    job = FetchJob.of(sent(custom={"mine": [1]}, reserve_for=77), "job-of-a-producer", URL)
    assert (job.id, job.url, job.hop, job.turn) == ("job-of-a-producer", URL, 0, 0)
    assert (job.retry, job.reserve_for, job.custom) == (3, 77, {"mine": [1]})
    assert FetchJob.of_text(job.to_text()) == job


@pytest.mark.parametrize("custom", [None, "text", {"mh": 3}, {"mh": {"hop": -1, "turn": "x"}}])
def test_other_producers_may_send_anything(custom):
    job = FetchJob.of({"jid": "12345678", "custom": custom}, "12345678", URL)
    assert (job.hop, job.turn, job.retry, job.reserve_for) == (0, 0, 25, 1800)
    assert job.redirected_to(TARGET, SHARDS).retry == 25


def test_a_redirect_is_the_same_job_in_the_queue_of_its_target():
    first = FetchJob.of(sent(custom={"mine": 1}), "job-of-a-producer", URL)
    made = first.redirected_to(TARGET, SHARDS)
    assert made.queue == shard_queue(TARGET, SHARDS)
    assert made.jid == first.redirected_to(TARGET, SHARDS).jid != first.id
    second = as_fetched(made)
    assert (second.id, second.url, second.hop) == (first.id, URL, 1)
    assert second.custom == {"mine": 1}
    assert second.key == key_of(first.id, 0, 1) != first.key


def test_a_dead_job_is_told_once_and_then_fetched_as_another_url():
    hop = as_fetched(FetchJob.of(sent(), "job-of-a-producer", URL).redirected_to(TARGET, SHARDS))
    dead = hop.failed_by("http 500", SHARDS)
    wire = dead.to_wire()
    assert (dead.args, dead.retry, dead.queue) == ([URL], 3, shard_queue(URL, SHARDS))
    assert cause_to_tell(wire) == "http 500"
    # Its worker died before it could say so.
    assert cause_to_tell(wire | {"failure": {"errtype": "ReservationExpired"}}) == "http 500"
    requeued = wire | {"failure": {"errtype": "Dead", "message": "http 500"}}
    assert cause_to_tell(requeued) is None
    again = FetchJob.of(requeued, "job-of-a-producer", URL)
    assert (again.id, again.hop, again.turn) == (hop.id, 0, 1)
    assert again.key not in (hop.key, key_of(hop.id, 0, 0))
    assert again.failed_by("http 500", SHARDS).jid != dead.jid


def test_a_job_as_its_producer_sent_it_has_nothing_to_tell():
    assert cause_to_tell(sent()) is None
    assert cause_to_tell({"custom": None}) is None


@pytest.mark.parametrize(
    ("retry", "attempts", "is_told"), [(8, 9, True), (0, 1, False), (-1, 1, True)]
)
def test_attempts_are_those_of_a_server(retry, attempts, is_told):
    job = FetchJob.of(sent() | {"retry": retry}, "job-of-a-producer", URL)
    assert (job.most_attempts, job.is_told_of_death) == (attempts, is_told)


def test_it_waits_as_long_as_a_faktory_would():
    assert back_off_s(1, 0.0) == 15
    assert back_off_s(3, 1.0) == 2**4 + 15 + 30 * 3


def test_it_may_say_how_long_it_is_unique_and_where_it_leads_is_not_asked_again():
    job = FetchJob.of(sent(custom={"unique_for_s": 60}), "job-of-a-producer", URL)
    assert job.unique_for_s == 60
    assert FetchJob.of_text(job.to_text()).unique_for_s == 60
    assert as_fetched(job.redirected_to(TARGET, SHARDS)).unique_for_s == 0
    assert as_fetched(job.failed_by("http 500", SHARDS)).unique_for_s == 60
    assert FetchJob.of(sent(), "job-of-a-producer", URL).unique_for_s == 0


@pytest.mark.parametrize("given", [0, -1, 315_360_001, "60", None, True, [60]])
def test_a_time_that_is_none_is_refused_with_those_that_there_are(given):
    with pytest.raises(InvalidJob, match=r"custom\.unique_for_s of it must be 1 to 315360000 s"):
        FetchJob.of(sent(custom={"unique_for_s": given}), "it", URL)


def test_what_others_are_the_same_as_has_a_name_that_can_be_said():
    with pytest.raises(InvalidJob, match="printable id"):
        FetchJob.of(sent(custom={"unique_for_s": 60}), "a\0b", URL)


def test_a_short_identity_gets_a_jid_that_a_server_takes():
    job = FetchJob.of({"custom": {}}, "x", URL)
    assert len(job.redirected_to(TARGET, SHARDS).jid) >= 8


def test_why_there_is_no_page_is_said_in_words():
    assert cause_of(UrlState.DISALLOWED, "robots.txt") == "not allowed by robots.txt"
    assert cause_of(UrlState.FAILED, "http 500") == "http 500"
    assert cause_of(UrlState.CANCELLED, "") == "cancelled"


def test_a_job_knows_the_urls_that_led_to_the_present_one():
    first = FetchJob.of(sent(), "job-of-a-producer", URL)
    assert first.redirects == ()
    second = as_fetched(first._replace(redirects=[URL]).redirected_to(TARGET, SHARDS))
    assert second.redirects == (URL,)
    assert FetchJob.of_text(second.to_text()).redirects == [URL]
    again = as_fetched(second.failed_by("not today", SHARDS))
    assert again.redirects == ()
