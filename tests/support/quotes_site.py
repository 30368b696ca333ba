"""A made-up site of quotes and their authors, as a directory of pages: lists that lead to the next
one, tags, and a page for each author."""

from html import escape
from pathlib import Path

AUTHORS = 7
QUOTES = 40
OF_A_LIST = 8
TAGS = ("hope", "work & play", "rain")


def write_quotes_site(directory: Path) -> str:
    """Returns the path of the first list."""
    lists = -(-QUOTES // OF_A_LIST)
    for number in range(lists):
        quotes = range(number * OF_A_LIST, min(QUOTES, (number + 1) * OF_A_LIST))
        following = f'<li class="next"><a href="/page/{number + 2}/">on</a></li>'
        body = "".join(map(_quote, quotes)) + (following if number + 1 < lists else "")
        _write(directory / "page" / str(number + 1), f"Quotes, {number + 1}", body)
    for tag in range(len(TAGS)):
        found = [quote for quote in range(QUOTES) if tag in _tags_of(quote)]
        _write(directory / "tag" / str(tag), escape(TAGS[tag]), "".join(map(_quote, found)))
    for author in range(AUTHORS):
        body = (
            f'<h3 class="author-title">\n {_name(author)} </h3>'
            f'<span class="author-born">18{author:02} in Nowhere</span>'
            f'<div class="author-about"> Wrote &amp; thought, {author} times. </div>'
        )
        _write(directory / "author" / f"a{author}", _name(author), body)
    return "/page/1/"


def _quote(number: int) -> str:
    author = number % AUTHORS
    tags = "".join(
        f'<a class="tag" href="/tag/{tag}/">{escape(TAGS[tag])}</a>' for tag in _tags_of(number)
    )
    return (
        f'<div class="quote"><span class="text">“Saying number {number} – as it was said.”</span>'
        f'by <small class="author">{_name(author)}</small>'
        f'<a class="about" href="/author/a{author}/">(about)</a>'
        f'<div class="tags">{tags}</div></div>'
    )


def _tags_of(number: int) -> list[int]:
    return [tag for tag in range(len(TAGS)) if number % (tag + 2) == 0]


def _name(author: int) -> str:
    return f"Zoë Author-{author}"


def _write(directory: Path, title: str, body: str) -> None:
    directory.mkdir(parents=True)
    page = f'<!doctype html><meta charset="utf-8"><title>{title}</title>{body}'
    (directory / "index.html").write_text(page, encoding="utf-8")
