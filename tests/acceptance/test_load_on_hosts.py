"""Locust's users want pages fetched, by two worker hosts of which one after the other is killed:
every job that was accepted is done or dead in the end, once, as API and ledger of the web say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.load.page_command import ANSWER_MS, MOST_PAGES_PER_USER_S, load_with_kills
from loadtest.load.page_stand import page_stand
from tests.acceptance.scale import IS_PROOF, PAGE_KILLS, PAGE_SECONDS, PAGE_USERS
from tests.support.hosts import need_hosts

SITES = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if IS_PROOF else 240)]

Record = Callable[[str, object], None]


def test_pages_that_were_accepted_are_done_or_dead_while_hosts_are_killed(
    tmp_path: Path, record_property: Record
) -> None:
    need_hosts()
    pages = PAGE_USERS * PAGE_SECONDS * MOST_PAGES_PER_USER_S
    with page_stand(SITES, pages, ANSWER_MS) as stand:
        waited, verdict = load_with_kills(stand, PAGE_USERS, PAGE_SECONDS, PAGE_KILLS, tmp_path)
        kills = len(stand.kills_ns)
    for name in ("accepted", "done", "dead", "repeated"):
        record_property(name, getattr(verdict, name))
    record_property("waited when Locust ended", waited)
    record_property("kills", kills)
    assert verdict.broken_promises() == []
    assert verdict.done + verdict.dead == verdict.accepted
    assert verdict.waiting == 0 < verdict.dead
