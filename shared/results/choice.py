"""What is wanted of a crawl's records: which of them, which fields, and as which rows. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from manyhands.shared.crawl.page_fields import FIELDS, OF_LINKS, RecordKind
from manyhands.shared.results.protocol import Page

Row = Mapping[str, Any]


class Listing(StrEnum):
    PAGES = "pages"
    LINKS = "links"


# A link's own fields.
FROM, TO, TEXT, REL = "from", "to", "text", "rel"
FIELDS_OF: Mapping[Listing, tuple[str, ...]] = {
    Listing.PAGES: tuple(field.name for field in FIELDS),
    Listing.LINKS: (FROM, TO, TEXT, REL),
}


class UnknownName(ValueError):
    """No field, or no kind of record, is called so."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`kinds` empty, `status` or `host` None: any. The host is that of `url`."""

    listing: Listing
    fields: tuple[str, ...]
    kinds: frozenset[str] = frozenset()
    status: int | None = None
    host: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields of records that have to be read."""
        of_rows = self.fields if self.listing is Listing.PAGES else ("final_url", *OF_LINKS)
        filters = [("kind", self.kinds), ("status", self.status), ("url", self.host)]
        of_filters = [name for name, wanted in filters if wanted]
        return tuple(dict.fromkeys((*of_rows, *of_filters)))

    def takes(self, page: Page) -> bool:
        if self.kinds and page["kind"] not in self.kinds:
            return False
        if self.status is not None and page["status"] != self.status:
            return False
        return self.host is None or urlsplit(page["url"]).hostname == self.host

    def rows(self, page: Page) -> list[Row]:
        if self.listing is Listing.LINKS:
            return [{name: link[name] for name in self.fields} for link in _links(page)]
        return [{name: page[name] for name in self.fields}]


def chosen_fields(listing: Listing, text: str | None) -> tuple[str, ...]:
    """Names with commas between them; None is all. Raises UnknownName."""
    return _named(text, FIELDS_OF[listing], "field") if text is not None else FIELDS_OF[listing]


def chosen_kinds(text: str | None) -> frozenset[str]:
    """Raises UnknownName."""
    return frozenset(_named(text, tuple(RecordKind), "kind") if text is not None else ())


def _named(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise UnknownName(f"{name[:80]!r} is no {what}: {', '.join(known)}")
    return names


def _links(page: Page) -> list[Row]:
    targets = page["links"] or []
    nothing = [None] * len(targets)
    texts, rels = page["link_texts"] or nothing, page["link_rels"] or nothing
    # Of an old record, or one that was cut, they may be fewer.
    return [
        {FROM: page["final_url"], TO: to, TEXT: text, REL: rel}
        for to, text, rel in zip(targets, texts, rels, strict=False)
    ]
