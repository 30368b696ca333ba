"""The measured tables inside docs/NETWORK_TUNING.md: each stands between two comments that name it,
and the benchmark that it comes from puts it there."""

from pathlib import Path

GUIDE = Path("docs/NETWORK_TUNING.md")


def split_at(text: str, name: str) -> tuple[str, str, str]:
    """Return what stands before, in and after a section; raises ValueError where it is not."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"not one section from {begin} to {end}")
    before, _, rest = text.partition(begin)
    inside, _, after = rest.partition(end)
    return before + begin, inside, end + after


def with_section(text: str, name: str, lines: list[str]) -> str:
    """Return the text with these lines in place of what the section had."""
    before, _, after = split_at(text, name)
    return "\n".join([before, "", *lines, "", after])


def fill_section(guide: Path, name: str, lines: list[str]) -> None:
    guide.write_text(with_section(guide.read_text(), name, lines))
