"""The runner of the fuzzers: the same seed gives the same inputs, and a fault leaves its input."""

from pathlib import Path

import pytest

from tests.fuzz.inputs import Pieces, damaged, in_pieces
from tests.fuzz.runner import STALL_S, Fuzzing, read_input
from tests.fuzz.targets import InProcess

MESSAGES = (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n",)


class Collecting(InProcess):
    """Waits as long as it is told, and fails on what it is told."""

    inputs = in_pieces(damaged(MESSAGES, [b"word"]))

    def __init__(self, *, fails_on: bytes = b"never", waits: tuple[float, ...] = ()) -> None:
        self.seen: list[Pieces] = []
        self._fails_on = fails_on
        self._waits = list(waits)

    def run(self, pieces: Pieces) -> float:
        self.seen.append(pieces)
        if self._fails_on in b"".join(pieces):
            raise ValueError("this one")
        return self._waits.pop(0) if self._waits else 0.0

    def rss_bytes(self) -> int:
        """Not that of this process: it has run thousands of other tests."""
        return 100 * 2**20


@pytest.fixture(autouse=True)
def no_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.fuzz.runner.CORPUS", tmp_path / "corpus")


def fuzz(target: Collecting, out: Path, seed: int = 1) -> Fuzzing:
    fuzzing = Fuzzing("collecting", target, out, seed)
    fuzzing.run(0.5)
    return fuzzing


def test_the_same_seed_gives_the_same_inputs_and_another_gives_others(tmp_path):
    one, again, other = Collecting(), Collecting(), Collecting()
    for target, seed in ((one, 1), (again, 1), (other, 2)):
        fuzz(target, tmp_path, seed)
    common = min(len(one.seen), len(again.seen), 100)
    assert one.seen[:common] == again.seen[:common]
    assert one.seen[:common] != other.seen[:common]


def test_a_fault_ends_the_run_and_its_input_can_be_read_again(tmp_path):
    target = Collecting(fails_on=b"word")
    outcome = fuzz(target, tmp_path).outcome
    assert outcome.failure == "ValueError: this one"
    assert b"word" in b"".join(target.seen[-1])
    assert read_input(Path(outcome.file)) == target.seen[-1]


def test_an_input_that_keeps_others_waiting_each_time_is_a_fault_and_a_busy_machine_is_none(
    tmp_path,
):
    slow = STALL_S * 2
    assert not fuzz(Collecting(waits=(slow, 0.1)), tmp_path).outcome.failure
    outcome = fuzz(Collecting(waits=(slow, slow + 1, slow)), tmp_path).outcome
    assert outcome.failure == f"others waited for {slow:.2f} s"


def test_inputs_that_failed_once_are_tried_first_every_time(tmp_path):
    corpus = tmp_path / "corpus" / "collecting"
    corpus.mkdir(parents=True)
    (corpus / "old.json").write_text('["caf\\u00e9", "b"]')
    target = Collecting()
    fuzz(target, tmp_path)
    assert target.seen[0] == [b"caf\xe9", b"b"]
