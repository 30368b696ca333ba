"""A file to which every run of a job appends one line, whichever process runs it."""

import os
from dataclasses import dataclass
from pathlib import Path

LEDGER_VARIABLE = "TEST_LEDGER"


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


class Ledger:
    """The test's view of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def entries(self) -> list[Entry]:
        fields = [line.split(" ", 3) for line in self.lines]
        return [Entry(id_, jid, int(count), note) for id_, jid, count, note in fields]

    @property
    def notes(self) -> list[str]:
        return [entry.note for entry in self.entries]
