"""The store's own clock: what one process began with, all of them have; setting the other changes
nothing."""

import time

import pytest

from manyhands.shared.crawl.store import clock


@pytest.fixture(autouse=True)
def own_clock(monkeypatch):
    monkeypatch.setattr(clock, "_store_clock", clock._StoreClock())


@pytest.mark.parametrize("step_s", [-3600.0, 7200.0, -600.0])
def test_a_clock_that_is_set_is_not_that_of_the_store(tmp_path, monkeypatch, step_s):
    clock.keep_time_of(tmp_path)
    before, wall = clock.now(), time.time
    monkeypatch.setattr(time, "time", lambda: wall() + step_s)
    assert clock.now() - before < 60
    # Neither for a process that is started after the step.
    monkeypatch.setattr(clock, "_store_clock", clock._StoreClock())
    clock.keep_time_of(tmp_path)
    assert 0 <= clock.now() - before < 60


def test_after_a_boot_it_begins_with_the_wall_clock(tmp_path, monkeypatch):
    clock.keep_time_of(tmp_path)
    monkeypatch.setattr(clock, "_boot", lambda: "another")
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 1000)
    clock.keep_time_of(tmp_path)
    assert clock.now() == pytest.approx(time.time(), abs=5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"boot": 1}', "null"])
def test_a_file_that_was_cut_short_is_written_anew(tmp_path, content):
    (tmp_path / "clock").write_text(content)
    clock.keep_time_of(tmp_path)
    assert clock.now() == pytest.approx(time.time(), abs=5)


def test_without_a_name_of_the_boot_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(clock, "_boot", lambda: "")
    clock.keep_time_of(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_clock_of_a_server_is_followed(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 500.0)
    clock.follow(10_000.0, asked_at=499.0, answered_at=500.0)
    assert clock.now() == 10_000.5


def test_a_slow_answer_that_may_be_right_changes_nothing(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 500.0)
    clock.follow(10_000.0, asked_at=500.0, answered_at=500.0)
    clock.follow(9_998.0, asked_at=497.0, answered_at=500.0)
    assert clock.now() == 10_000.0
    clock.follow(9_998.0, asked_at=499.0, answered_at=500.0)
    assert clock.now() == 9_998.5
