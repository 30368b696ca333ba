"""Bytes of pages in flight: who reads on, who waits, and that something always moves."""

from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.net.byte_budget import READ_BYTES, ByteBudget, Hold, Reader

LIMIT = 4 * READ_BYTES


class Fetch(Reader):
    """A page of some size, read piece by piece. State: what it holds, and whether it waits."""

    def __init__(self, budget: ByteBudget, size: int) -> None:
        self.budget = budget
        self.hold = Hold(budget)
        self.size = size
        self.read = 0
        self.waits = False

    def go_on(self) -> None:
        self.waits = False

    def read_on(self) -> None:
        self.read = min(self.size, self.read + READ_BYTES)
        self.hold.resize(self.read)
        if self.read == self.size:
            self.hold.is_read()
            self.budget.ended(self)
        else:
            self.waits = not self.budget.may_go_on(self)

    @property
    def is_done(self) -> bool:
        return self.read == self.size


def test_below_the_limit_everybody_reads():
    budget = ByteBudget(LIMIT)
    fetches = [Fetch(budget, 2 * READ_BYTES) for _ in range(3)]
    for fetch in fetches:
        fetch.read_on()
    assert not any(fetch.waits for fetch in fetches)
    assert (budget.held, budget.is_full, budget.waiting) == (3 * READ_BYTES, False, 0)


def test_at_the_limit_one_reads_on_and_the_others_wait():
    budget = ByteBudget(LIMIT)
    fetches = [Fetch(budget, 10 * READ_BYTES) for _ in range(6)]
    for fetch in fetches:
        fetch.read_on()
    assert budget.is_full
    assert [fetch.waits for fetch in fetches] == [False, False, False, False, True, True]
    for fetch in fetches[:4]:
        fetch.read_on()
    assert [fetch.waits for fetch in fetches] == [True, True, True, False, True, True]


def test_a_page_of_any_size_goes_through():
    budget = ByteBudget(1)
    fetch = Fetch(budget, 100 * READ_BYTES)
    while not fetch.is_done:
        fetch.read_on()
        assert not fetch.waits


def test_bytes_that_are_forgotten_are_free_again():
    budget = ByteBudget(LIMIT)
    held = Hold(budget)
    held.resize(LIMIT)
    held.is_read()
    waits = Fetch(budget, 10 * READ_BYTES)
    waits.read_on()
    assert waits.waits
    del held
    assert (waits.waits, budget.held) == (False, READ_BYTES)


def test_nobody_reads_on_while_the_broker_does_not_take_what_was_read():
    budget = ByteBudget(LIMIT)
    fetches = [Fetch(budget, 8 * READ_BYTES) for _ in range(3)]
    for fetch in fetches:
        fetch.read_on()
    while not fetches[0].is_done:
        fetches[0].read_on()
    for fetch in fetches[1:]:
        fetch.read_on()
    assert all(fetch.waits for fetch in fetches[1:])
    fetches[0].hold.resize(0)
    assert [fetch.waits for fetch in fetches[1:]] == [False, True]


def test_only_as_many_go_on_as_there_is_room_for():
    budget = ByteBudget(LIMIT)
    held = Hold(budget)
    held.resize(2 * LIMIT)
    held.is_read()
    fetches = [Fetch(budget, 10 * READ_BYTES) for _ in range(6)]
    for fetch in fetches:
        fetch.read_on()
    assert sum(fetch.waits for fetch in fetches) == 6
    held.resize(0)
    assert sum(fetch.waits for fetch in fetches) == 5
    assert budget.held == 6 * READ_BYTES  # they hold more than the limit themselves
    fetches[0].hold.resize(0)
    fetches[1].hold.resize(0)
    fetches[2].hold.resize(0)
    assert sum(fetch.waits for fetch in fetches) == 4


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 10), st.randoms())
def test_every_page_is_read_and_never_much_more_is_held(sizes, limit, random):
    """In whatever order; there may be one read of each too many, and one page."""
    budget = ByteBudget(limit * READ_BYTES)
    fetches = [Fetch(budget, size * READ_BYTES) for size in sizes]
    most = (limit + len(sizes) + max(sizes)) * READ_BYTES
    under_way = list(fetches)
    while under_way:
        able = [fetch for fetch in under_way if fetch.is_done or not fetch.waits]
        assert able, "nobody can go on"
        fetch = random.choice(able)
        if fetch.is_done:
            fetch.hold.resize(0)
            under_way.remove(fetch)
        else:
            fetch.read_on()
        assert budget.held <= most
    assert (budget.held, budget.waiting) == (0, 0)
