import gzip
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from manyhands.cli.given_files import FILES, keep_exclusions, keep_seeds
from manyhands.cli.seeds import UsageError

SEEDS = b"https://a.example/\nhttps://b.example/\n"


@pytest.mark.parametrize(
    "packed",
    [SEEDS, gzip.compress(SEEDS, mtime=0), zstandard.compress(SEEDS)],
    ids=["plain", "gzip", "zstd"],
)
def test_seeds_are_kept_unpacked_under_a_name_that_follows_from_them(
    tmp_path: Path, packed: bytes
) -> None:
    (tmp_path / "given").write_bytes(packed)
    name = keep_seeds(tmp_path, str(tmp_path / "given"))
    assert (tmp_path / FILES / name).read_bytes() == SEEDS
    assert name == "seeds-5fd28500892f05ba.txt"
    assert [file.name for file in (tmp_path / FILES).iterdir()] == [name]


def test_seeds_come_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(SEEDS)))
    assert (tmp_path / FILES / keep_seeds(tmp_path, "-")).read_bytes() == SEEDS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (gzip.compress(SEEDS, mtime=0)[:20], "cut off"),
    ],
    ids=["missing", "empty", "cut off"],
)
def test_a_file_that_cannot_be_used_is_told(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "given").write_bytes(content)
    with pytest.raises(UsageError, match=said):
        keep_seeds(tmp_path, str(tmp_path / "given"))


@pytest.mark.parametrize(
    ("rules", "said"),
    [(b"a.example\nno host\n", "line 2: not the name of a host"), (b"\xff\xfe", "not UTF-8")],
    ids=["no rule", "no text"],
)
def test_a_line_that_is_no_rule_is_told(tmp_path: Path, rules: bytes, said: str) -> None:
    (tmp_path / "given").write_bytes(rules)
    with pytest.raises(UsageError, match=said):
        keep_exclusions(tmp_path, str(tmp_path / "given"))


def test_rules_are_kept(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b"a.example # not there\n*/private/*\n")
    assert keep_exclusions(tmp_path, str(tmp_path / "given")).startswith("exclude-")
