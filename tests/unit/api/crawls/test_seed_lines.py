"""The lines of a seed file, in parts that can be gone on after."""

from pathlib import Path

import pytest

from manyhands.api.crawls import seed_lines
from manyhands.api.crawls.seed_lines import MAX_LINE_BYTES, FileHasChanged, Part, SeedLines
from manyhands.shared.crawl.store.model import SeedFile
from manyhands.shared.public_addresses import AddressRule

NOT_READ = SeedFile(1, "seeds.txt")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "seeds.txt"


def parts_of(path: Path, read: SeedFile = NOT_READ) -> list[Part]:
    """To its end."""
    lines = SeedLines(path, read, AddressRule())
    parts = [lines.next_part()]
    while not parts[-1].is_end:
        parts.append(lines.next_part())
    lines.close()
    return parts


def urls_of(parts: list[Part]) -> list[str]:
    return [seed.url for part in parts for seed in part.seeds]


def test_every_line_is_counted_and_those_that_are_no_urls_are_refused(path):
    path.write_bytes(
        "# ours\n\n https://é.example/a \r\nnowhere\nhttps://b.example\nftp://c.example/\n".encode()
        + b"https://\xff\xfe/"
    )
    [part] = parts_of(path)
    assert [seed.url for seed in part.seeds] == ["https://xn--9ca.example/a", "https://b.example/"]
    assert part.seeds[0].domain == "xn--9ca.example"
    assert (part.lines, part.refused, part.is_end) == (7, 3, True)
    assert part.size == path.stat().st_size
    assert part.first_refusal == "line 4 is no URL to be fetched"


def test_a_refusal_says_nothing_of_what_is_in_the_file(path):
    path.write_text("root:x:0:0:root:/root:/bin/bash\n")
    [part] = parts_of(path)
    assert "root" not in part.first_refusal


@pytest.mark.parametrize("limit", ["LINES_AT_ONCE", "BYTES_AT_ONCE"])
def test_a_long_file_comes_in_parts(path, monkeypatch, limit):
    monkeypatch.setattr(seed_lines, limit, 10 if limit == "LINES_AT_ONCE" else 300)
    path.write_text("".join(f"https://site{number}.example/\n" for number in range(100)))
    parts = parts_of(path)
    assert len(parts) > 5
    assert urls_of(parts) == [f"https://site{number}.example/" for number in range(100)]


def test_an_empty_file_has_an_end(path):
    path.touch()
    [part] = parts_of(path)
    assert (part.lines, part.is_end) == (0, True)


@pytest.mark.parametrize("more", [0, 1, 3 * MAX_LINE_BYTES, 3 * MAX_LINE_BYTES + 7])
@pytest.mark.parametrize("end", ["", "\nhttps://b.example/\n"])
def test_a_line_of_any_length_is_one_line(path, more, end):
    path.write_text(f"https://a.example/\n{'x' * (MAX_LINE_BYTES + more)}{end}")
    parts = parts_of(path)
    assert urls_of(parts) == ["https://a.example/", *(["https://b.example/"] if end else [])]
    assert sum(part.lines for part in parts) == (3 if end else 2)
    assert sum(part.refused for part in parts) == 1


def test_whoever_comes_next_goes_on_where_the_last_one_stopped(path, monkeypatch):
    monkeypatch.setattr(seed_lines, "LINES_AT_ONCE", 7)
    monkeypatch.setattr(seed_lines, "BYTES_AT_ONCE", 100)
    path.write_text("".join(f"https://site{number}.example/\nx\n" for number in range(30)))
    read, urls = NOT_READ, []
    while not read.is_read:
        lines = SeedLines(path, read, AddressRule())
        part = lines.next_part()
        lines.close()
        urls += urls_of([part])
        read = part.added_to(read, 1.0)
    assert urls == [f"https://site{number}.example/" for number in range(30)]
    assert (read.lines, read.refused, read.size) == (60, 30, path.stat().st_size)


@pytest.mark.parametrize("now_it_has", ["https://z.example/\nhttps://b.example/\n", "https://", ""])
def test_a_file_that_does_not_begin_with_what_was_read_is_not_gone_on_with(
    path, monkeypatch, now_it_has
):
    monkeypatch.setattr(seed_lines, "LINES_AT_ONCE", 1)
    path.write_text("https://a.example/\nhttps://b.example/\n")
    lines = SeedLines(path, NOT_READ, AddressRule())
    read = lines.next_part().added_to(NOT_READ, 1.0)
    assert not lines.has_changed()
    path.write_text(now_it_has)
    assert lines.has_changed()
    lines.close()
    with pytest.raises(FileHasChanged, match=r"1 lines were read"):
        SeedLines(path, read, AddressRule())


def test_lines_that_were_added_since_are_read(path, monkeypatch):
    monkeypatch.setattr(seed_lines, "LINES_AT_ONCE", 1)
    path.write_text("https://a.example/\n")
    lines = SeedLines(path, NOT_READ, AddressRule())
    read = lines.next_part().added_to(NOT_READ, 1.0)
    lines.close()
    path.write_text("https://a.example/\nhttps://b.example/\n")
    assert urls_of(parts_of(path, read)) == ["https://b.example/"]


def test_a_file_that_is_gone_is_said_to_have_changed(path):
    path.touch()
    lines = SeedLines(path, NOT_READ, AddressRule())
    path.unlink()
    assert lines.has_changed()
    lines.close()
