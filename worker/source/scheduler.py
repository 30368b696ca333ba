"""How the slots of one process are shared among its stages. Pure, and without a memory.

Stages with work come first. Free slots raise their common level, slots held ÷ weight: those lowest
on it rise first, none is pushed down, and none rises above what it can use. So a stage that was
without work is the first to get what becomes free, and what one cannot use goes to the others.
Stages whose queues are empty get their listeners from what is left over.

A stage with a higher rank gets only what those below it leave: so a strict order is kept.

Slots are whole. What is left after rounding down is drawn by lot, so that with fewer slots than
stages each has its turn, and in the long run the shares match the weights for any number of slots.
A lot needs no memory; a rule without one would always prefer the same stage when two are level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import choices


@dataclass(slots=True, frozen=True)
class StageView:
    """One stage of this process, now."""

    weight: int
    # Most slots (running + outstanding) that it may have in this process.
    cap: int
    running: int
    # FETCHes sent and not answered: each is a promise of a slot.
    outstanding: int
    # FETCHes that its window would like to have outstanding now.
    wanted: int
    # Its queues are known to be empty: it wants only listeners.
    is_idle: bool
    # Back-pressure: the share of its cap (and of the process's slots) that it may use.
    pace: float = 1.0
    # Free slots go to those with the lowest first.
    rank: int = 0


# A stage that could use more slots than it holds: its place among the stages, its weight, the slots
# that it holds, and the most that it could use. A bare tuple: a class would double the time.
Claim = tuple[int, int, int, int]


def credits(slots: int, stages: Sequence[StageView]) -> list[int]:
    """How many FETCHes each stage may send now."""
    free = slots
    for stage in stages:
        free -= stage.running + stage.outstanding
    if len(stages) == 1:
        held = slots - free
        return [max(0, _most(stages[0], slots) - held)]
    given = [0] * len(stages)
    ranks = sorted({stage.rank for stage in stages})
    for is_idle in (False, True):
        for rank in ranks:
            if free > 0:
                claims = _claims(slots, stages, rank, is_idle=is_idle)
                free -= _share_out(free, claims, given)
    return given


def _claims(slots: int, stages: Sequence[StageView], rank: int, *, is_idle: bool) -> list[Claim]:
    claims = []
    for at, stage in enumerate(stages):
        if stage.is_idle is is_idle and stage.rank == rank:
            held, most = stage.running + stage.outstanding, _most(stage, slots)
            if most > held:
                claims.append((at, stage.weight, held, most))
    return claims


def _most(stage: StageView, slots: int) -> int:
    """Slots that it could use now and may have."""
    return min(int(min(stage.cap, slots) * stage.pace), stage.running + stage.wanted)


def _share_out(free: int, claims: list[Claim], given: list[int]) -> int:
    """Write into `given` what each gets of the free slots; how many that were in all."""
    wanted = 0
    for at, _, held, most in claims:
        given[at] = most - held
        wanted += most - held
    if wanted <= free:
        return wanted
    if len(claims) == 1:
        given[claims[0][0]] = free
    else:
        _raise_level(free, claims, given)
    return free


def _raise_level(free: int, claims: list[Claim], given: list[int]) -> None:
    """Find the level at which the free slots are used up: a claim gets weight × level, but no less
    than it holds and no more than it could use.

    One that the level leaves outside its bounds gets the bound and is set aside, which moves the
    level of the others. Of those above and those below, the ones that are outside by more in all
    go first: the move cannot bring them back inside."""
    pool = free
    for _, _, held, _ in claims:
        pool += held
    while True:
        weights = 0
        for _, weight, _, _ in claims:
            weights += weight
        excess = _excess(pool, weights, claims)
        if excess is None:
            break
        inside = []
        left = pool
        for claim in claims:
            at, weight, held, most = claim
            level = pool * weight
            if excess >= 0 and level <= held * weights:
                given[at] = 0
                left -= held
            elif excess <= 0 and level >= most * weights:
                given[at] = most - held
                left -= most
            else:
                inside.append(claim)
        claims, pool = inside, left
    _round(pool, weights, claims, given)


def _excess(pool: int, weights: int, claims: list[Claim]) -> int | None:
    """By how much the bounds of the claims exceed the level in all; None when all are inside. In
    units of one slot ÷ weights, so that everything is whole."""
    excess = 0
    is_inside = True
    for _, weight, held, most in claims:
        level = pool * weight
        if level < held * weights:
            excess += held * weights - level
            is_inside = False
        elif level > most * weights:
            excess += most * weights - level
            is_inside = False
    return None if is_inside else excess


def _round(pool: int, weights: int, claims: list[Claim], given: list[int]) -> None:
    """Share `pool` slots by weight: whole ones, and those that remain by lot."""
    left = pool
    odds = []
    for at, weight, held, _ in claims:
        whole, remainder = divmod(pool * weight, weights)
        given[at] = whole - held
        left -= whole
        # One that holds many slots draws more often, namely when one of them becomes free: with
        # equal odds it would lose them one by one, and a small stage would have too many.
        odds.append(remainder * (held + 1))
    for _ in range(left):
        (winner,) = choices(range(len(claims)), odds)
        given[claims[winner][0]] += 1
        odds[winner] = 0
