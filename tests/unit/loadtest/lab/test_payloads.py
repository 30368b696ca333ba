"""The benchmark's jobs: valid JSON, each with its own jid, of the size that is reported."""

import json

from loadtest.lab.payloads import Payloads, bench_payloads


def jobs_of(line: bytes) -> list[dict[str, object]]:
    assert line.endswith(b"]\r\n")
    jobs = json.loads(line.removeprefix(b"PUSHB "))
    assert isinstance(jobs, list)
    return jobs


def test_a_job_has_about_200_bytes_and_its_number_as_argument():
    text = bench_payloads("bench").job(123_456)
    assert 150 <= len(text) <= 220
    job = json.loads(text)
    assert (job["jobtype"], job["args"], job["queue"]) == ("bench_noop", [123_456], "bench")


def test_a_sleeping_job_is_told_for_how_long():
    job = json.loads(bench_payloads("bench", 100).job(7))
    assert (job["jobtype"], job["args"]) == ("bench_sleep", [7, 100])


def test_commands_hold_exactly_the_jobs_asked_for_in_full_batches_and_a_rest():
    commands = list(bench_payloads("bench").commands(250, 100))
    assert [size for size, _ in commands] == [100, 100, 50]
    jobs = [job for size, line in commands for job in jobs_of(line)]
    assert [job["args"] for job in jobs] == [[n] for n in range(250)]


def test_no_two_jobs_share_a_jid_neither_of_one_run_nor_of_two():
    jids = {
        job["jid"]
        for payloads in (bench_payloads("bench"), bench_payloads("bench"))
        for _, line in payloads.commands(3000, 1000)
        for job in jobs_of(line)
    }
    assert len(jids) == 6000
    assert {len(str(jid)) for jid in jids} == {32}


def test_a_single_push_is_one_line():
    line = Payloads("q", "bench_stamp", (4711,)).push(3)
    assert line.startswith(b"PUSH {") and line.endswith(b"}\r\n") and line.count(b"\n") == 1
    assert json.loads(line.removeprefix(b"PUSH "))["args"] == [3, 4711]
