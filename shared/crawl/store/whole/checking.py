"""A state looked through: counters against rows, and shards against each other and against what all
share. Changes nothing, and may be done beside owners."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.store.errors import StateDamaged, StateError
from manyhands.shared.crawl.store.texts import unpack
from manyhands.shared.crawl.store.whole.closing import CLOSED, Closed, refusal
from manyhands.shared.crawl.store.whole.protocol import WholeStore, facts_of
from manyhands.shared.crawl.store.whole.recount import counts, faults
from manyhands.shared.crawl.store.whole.tables import Tables

# Numbers of batches of links, by source and target.
_Numbers = dict[tuple[int, int], int]


@dataclass(slots=True)
class Checked:
    """`crawls` have their states; `found` are the rows of each by the names of counters;
    `differences` are sentences."""

    shards: int
    crawls: dict[int, str]
    found: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    differences: list[str] = field(default_factory=list)


def check_state(store: WholeStore, on_shard: Callable[[int, int], None]) -> Checked:
    """`on_shard` is called with the shards that were looked through, and with all that there are.
    Raises StateError when there is no whole state to look at."""
    control = store.look()
    if control is None:
        raise StateError(f"there is no state in {store.shown}")
    facts = facts_of(control)
    closed = facts.get(CLOSED)
    if closed is not None and closed != Closed.HAS_LEFT:
        raise refusal(closed, store.shown)
    generation, shards = facts.get("generation", 0), facts.get("shards", 0)
    made = store.made_shards(generation)
    checked = Checked(shards, {})
    # Before what was sent: that only grows, so no batch has arrived that was not sent by then.
    received = _links(store, generation, made, "SELECT source, up_to FROM @received")
    for done, shard in enumerate(made):
        on_shard(done, len(made))
        checked.differences += [
            f"shard {shard:02}: {fault}" for fault in _of_shard(store, generation, shard, checked)
        ]
    sent = _links(store, generation, made, "SELECT target, last FROM @sent")
    checked.differences += _of_links(
        {(source, target): up_to for (target, source), up_to in received.items()}, sent
    )
    # After the shards: a crawl is made before it has URLs.
    checked.crawls.update(control.ask("SELECT id, state FROM @crawls"))
    checked.differences += _of_control(control, checked)
    on_shard(len(made), len(made))
    return checked


def _of_shard(store: WholeStore, generation: int, shard: int, checked: Checked) -> Iterator[str]:
    try:
        if damage := store.damage(generation, shard):
            yield damage
            return
        with store.opened_tables(generation, shard) as tables:
            for count in counts(tables):
                checked.found[count.crawl][count.name] += count.found
                if count.counted != count.found:
                    yield (
                        f"crawl {count.crawl}: the counter {count.name} is {count.counted:,}, the"
                        f" rows are {count.found:,}"
                    )
            yield from faults(tables, shard, checked.shards)
    except StateDamaged as error:
        yield str(error)


def _links(store: WholeStore, generation: int, made: list[int], query: str) -> _Numbers:
    """By shard and the other one; of those that are damaged nothing."""
    found = {}
    for shard in made:
        with suppress(StateDamaged), store.opened_tables(generation, shard) as tables:
            found.update({(shard, other): number for other, number in tables.ask(query)})
    return found


def _of_links(received: _Numbers, sent: _Numbers) -> Iterator[str]:
    for (source, target), up_to in sorted(received.items()):
        last = sent.get((source, target), 0)
        if up_to > last:
            yield (
                f"shard {target:02} has had {up_to:,} batches of links from shard {source:02},"
                f" which has sent {last:,}"
            )


def _of_control(control: Tables, checked: Checked) -> Iterator[str]:
    for crawl in sorted(checked.found.keys() - checked.crawls.keys() - {NO_CRAWL}):
        yield f"crawl {crawl} has URLs, but there is no such crawl"
    for table, what in (("seeds", "batches of seeds"), ("purges", "purges")):
        [(number,)] = control.ask(
            f"SELECT count(*) FROM @{table} WHERE shard < 0 OR shard >= %s OR NOT EXISTS"
            f" (SELECT 1 FROM @crawls AS crawls WHERE crawls.id = @{table}.crawl)",
            (checked.shards,),
        )
        if number:
            yield f"{number:,} {what} are for a shard or a crawl that is not there"
    [(number,)] = control.ask(
        "SELECT count(*) FROM @seed_files WHERE NOT EXISTS"
        " (SELECT 1 FROM @crawls AS crawls WHERE crawls.id = @seed_files.crawl)"
    )
    if number:
        yield f"{number:,} seed files are for a crawl that is not there"
    yield from _of_exclusions(control)


def _of_exclusions(control: Tables) -> Iterator[str]:
    """One list at a time: each may be long."""
    keys = control.ask(
        "SELECT exclusions_key, min(id) FROM @crawls WHERE exclusions_key IS NOT NULL"
        " GROUP BY exclusions_key ORDER BY 2"
    )
    for key, crawl in keys:
        parts = control.ask("SELECT body FROM @texts WHERE key = %s ORDER BY part", (key,))
        try:
            unpack(key, (body for (body,) in parts))
        except ValueError as error:
            yield f"the exclusions of crawl {crawl} are damaged: {error}"
