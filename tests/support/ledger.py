"""A file to which every run of a job appends one line, whichever process runs it."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

LEDGER_VARIABLE = "TEST_LEDGER"
# What tests.support.answered writes.
ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Entry:
    id: str
    jid: str
    deliveries: int
    note: str


def write_entry(path: str, id_: str, jid: str, deliveries: int, note: str) -> None:
    """One write call per line: processes and threads append side by side."""
    line = f"{id_} {jid} {deliveries} {note}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


class LedgerTail:
    """Reads on from where it was: a long run's ledger is too large to be read anew each time.
    State: all entries so far, in their order, and how many of each note."""

    def __init__(self, path: Path) -> None:
        self.entries: list[Entry] = []
        self.notes: Counter[str] = Counter()
        self._path = path
        self._position = 0

    def read(self) -> list[Entry]:
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._position += len(whole)
            new = [_entry(line) for line in whole.decode().splitlines()]
            self.entries.extend(new)
            self.notes.update(entry.note for entry in new)
        return self.entries


class Ledger:
    """The test's view of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        """Whole ones: another process may be writing the last."""
        text = self.path.read_text() if self.path.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    @property
    def entries(self) -> list[Entry]:
        return [_entry(line) for line in self.lines]

    @property
    def notes(self) -> list[str]:
        return [entry.note for entry in self.entries]


def _entry(line: str) -> Entry:
    id_, jid, deliveries, note = line.split(" ", 3)
    return Entry(id_, jid, int(deliveries), note)
