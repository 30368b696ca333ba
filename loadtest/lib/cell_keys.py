"""Read cells from the command line: by their keys, or by how keys begin. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar


class Keyed(Protocol):
    @property
    def key(self) -> str: ...


KeyedType = TypeVar("KeyedType", bound=Keyed)
# By the first word of a key: makes the cell of the other words, or raises TypeError or ValueError.
Readers = Mapping[str, Callable[..., KeyedType]]


def parse_keys(
    text: str, readers: Readers[KeyedType], known: Sequence[KeyedType], forms: str
) -> tuple[KeyedType, ...]:
    """Read `push,drain/ours/50/8000`; raises ValueError with the wrong word in it. A word that is
    not a whole key means the known cells whose keys begin so."""
    cells: list[KeyedType] = []
    for word in text.split(","):
        found = _parse(word.strip(), readers, known)
        if not found:
            raise ValueError(f"{word!r} is none of {forms}")
        cells += [cell for cell in found if cell not in cells]
    return tuple(cells)


def _parse(word: str, readers: Readers[KeyedType], known: Sequence[KeyedType]) -> list[KeyedType]:
    kind, *parts = word.split("/")
    try:
        if kind in readers:
            return [readers[kind](*parts)]
    except (TypeError, ValueError):
        # Not a whole cell: perhaps the beginning of some.
        pass
    return _beginning(word, known)


def parse_known(text: str, known: Sequence[KeyedType]) -> tuple[KeyedType, ...]:
    """Read `http/keep/20k,https` where no other cells can be measured than the known ones; raises
    ValueError with the wrong word in it."""
    cells: list[KeyedType] = []
    for word in text.split(","):
        found = _beginning(word, known)
        if not found:
            raise ValueError(f"no such cell: {word}")
        cells += [cell for cell in found if cell not in cells]
    return tuple(cells)


def _beginning(word: str, known: Sequence[KeyedType]) -> list[KeyedType]:
    return [cell for cell in known if f"{cell.key}/".startswith(f"{word}/")]


def read_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number above 0")
    return int(text)
