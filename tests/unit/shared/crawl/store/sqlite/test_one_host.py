"""A directory of SQLite files is for one machine; a boot id stands for a machine here."""

import pytest

from manyhands.shared.crawl.store.sqlite.one_host import HostBeats, are_beating
from manyhands.shared.errors import ConfigError


def test_only_a_beat_that_changes_is_of_a_machine_that_runs():
    before = {"a": "1", "b": "1", "c": "1"}
    assert are_beating(before, {"a": "1", "b": "2"}) == {"b"}
    assert are_beating(before, {"new": "1"}) == {"new"}
    assert are_beating(before, before) == set()


def test_another_machine_that_runs_is_refused_in_one_line(tmp_path):
    theirs, ours = HostBeats(tmp_path, "theirs"), HostBeats(tmp_path, "ours")
    theirs.beat()
    assert ours.look()
    theirs.beat()
    with pytest.raises(ConfigError, match="another machine uses") as refused:
        ours.refuse_others()
    assert "\n" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_an_earlier_boot_of_this_machine_is_waited_for_once(tmp_path):
    HostBeats(tmp_path, "before the reboot").beat()
    ours = HostBeats(tmp_path, "ours")
    assert ours.look()
    ours.refuse_others()
    ours.forget_others()
    ours.beat()
    assert not HostBeats(tmp_path, "ours").look()


def test_processes_and_containers_of_one_machine_do_not_see_each_other(tmp_path):
    first, second = HostBeats(tmp_path, "ours"), HostBeats(tmp_path, "ours")
    first.beat()
    assert not second.look()
    second.beat()
    first.beat()
    second.refuse_others()
    first.refuse_others()


def test_of_two_that_started_together_each_notices_the_other(tmp_path):
    one, other = HostBeats(tmp_path, "one"), HostBeats(tmp_path, "other")
    assert not one.look()
    assert not other.look()
    one.beat()
    other.beat()
    for beats in (one, other):
        with pytest.raises(ConfigError):
            beats.refuse_others()


def test_where_the_system_does_not_tell_its_boot_nobody_is_refused(tmp_path):
    HostBeats(tmp_path, "another").beat()
    nameless = HostBeats(tmp_path, "")
    nameless.beat()
    assert not nameless.look()
    nameless.refuse_others()


def test_what_cannot_be_written_is_left_to_the_store_to_say(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("")
    beats = HostBeats(occupied, "ours")
    beats.beat()
    assert not beats.look()
