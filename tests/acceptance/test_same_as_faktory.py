"""Thousands of made-up commands to a real Faktory and to our broker: the same answers, and the same
jobs behind them, but for what docs/BROKER.md lists."""

from collections.abc import Callable

import pytest

from devservers import BrokerServer, FaktoryServer
from tests.acceptance.scale import IS_PROOF, SAME_COMMANDS
from tests.support.twins.differences import CHANGES, RULES, listed
from tests.support.twins.play import twins

SEED = 17


def test_every_entry_of_the_list_is_one_that_the_comparison_knows() -> None:
    assert listed() == RULES.keys() | CHANGES.keys()


@pytest.mark.timeout(900)
def test_the_broker_answers_like_faktory_and_holds_the_same_jobs(
    record_property: Callable[[str, object], None],
) -> None:
    # Nothing is killed here, and a write that need not survive a power loss is quicker.
    with (
        FaktoryServer() as faktory,
        BrokerServer(settings={"BROKER_SYNC": "normal"}) as broker,
        twins(faktory, broker) as both,
    ):
        tally = both.compare(SEED, SAME_COMMANDS)
    record_property("commands", tally.commands)
    record_property("sequences", tally.sequences)
    record_property("differences of the list", sum(tally.met.values()))
    if IS_PROOF:
        assert listed() - tally.met.keys() == set(), "these entries of docs/BROKER.md never differ"
