"""How options of the command line are read. Pure."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """An option that not every command has; without `read` it is a switch."""

    flag: str
    help: str
    read: Callable[[str], object] | None = None
    default: object = None

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        if self.read is None:
            parser.add_argument(self.flag, action="store_true", help=self.help)
        else:
            parser.add_argument(self.flag, type=self.read, default=self.default, help=self.help)


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def counts(text: str) -> list[int]:
    """Of a list such as `1000,2000`."""
    return [count(part) for part in text.split(",")]


def some_of(known: Iterable[str], what: str) -> Callable[[str], list[str]]:
    """Of a list such as `ours,rust`."""
    names = set(known)

    def read(text: str) -> list[str]:
        chosen = text.split(",")
        unknown = sorted(set(chosen) - names)
        if unknown:
            raise argparse.ArgumentTypeError(f"no such {what}: {', '.join(unknown)}")
        return chosen

    return read


def one_or_more(known: Iterable[str], flag: str, what: str) -> Option:
    """All of them, unless some are named."""
    names = list(known)
    return Option(flag, f"of {','.join(names)}", some_of(names, what), names)
