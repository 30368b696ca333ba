"""Reads XML of strangers a piece at a time, for the texts of a few elements: feeds and sitemaps.
Pure.

Nothing outside of it is read, and what declares entities is not read at all, so a text is never
longer than it stands there. What is held is bounded: open elements, the text of one, and a tag or
comment that has not ended (expat looks through that again with each piece). What is bad is cut
there; what came before counts.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from xml.parsers import expat

from manyhands.shared.crawl.cuts import Cut

# Of feeds with whole pages in them.
MAX_DEPTH = 200
# Of all elements: a full sitemap with fifteen translations of each page.
MAX_ELEMENTS = 1_000_000
# Longer than any URL.
MAX_TEXT_LENGTH = 16_384
MAX_TAG_BYTES = 1024 * 1024


class Element(NamedTuple):
    """Names are without their namespace's prefix; `parent` is empty for the root."""

    name: str
    parent: str
    attributes: dict[str, str]


class Enough(Exception):
    """Raised by those who are given texts: no more is wanted, and this is why."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(str(cut))
        self.cut = cut


class XmlReader:
    """State: the open elements, and the text of the one that is wanted.

    `is_wanted` is asked at each element's begin; `ended` gets those that are, with their text."""

    def __init__(
        self, is_wanted: Callable[[Element], bool], ended: Callable[[Element, str], None]
    ) -> None:
        self._is_wanted = is_wanted
        self._ended = ended
        self._open = [""]
        self._elements = 0
        self._wanted: Element | None = None
        self._wanted_at = 0
        self._texts: list[str] = []
        self._length = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = _refuse_entities

    def read(self, pieces: Iterable[bytes], *, is_whole: bool) -> Cut | None:
        """Why it was not read to its end, if so. `is_whole`: an end in the middle is bad."""
        fed = 0
        try:
            for piece in pieces:
                self._parse(piece)
                fed += len(piece)
                if fed - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
                    return Cut.XML
            if is_whole:
                self._parse(b"", is_last=True)
        except Enough as enough:
            return enough.cut
        finally:
            self._close()
        return None

    def _parse(self, piece: bytes, *, is_last: bool = False) -> None:
        try:
            self._parser.Parse(piece, is_last)
        except (expat.ExpatError, LookupError, ValueError) as error:
            # The last two: of an encoding that there is not, or that it cannot read.
            raise Enough(Cut.XML) from error

    def _close(self) -> None:
        """The parser refers to us: a cycle would wait for the garbage collector."""
        self._parser.StartElementHandler = None
        self._parser.EndElementHandler = None
        self._parser.CharacterDataHandler = None

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if len(self._open) > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise Enough(Cut.NESTING if len(self._open) > MAX_DEPTH else Cut.XML)
        local = name.rpartition(":")[2]
        if self._wanted is None:
            element = Element(local, self._open[-1], attributes)
            if self._is_wanted(element):
                self._wanted, self._wanted_at = element, len(self._open)
                self._texts, self._length = [], 0
                self._parser.CharacterDataHandler = self._text
        self._open.append(local)

    def _end(self, _name: str) -> None:
        self._open.pop()
        if self._wanted is not None and len(self._open) == self._wanted_at:
            wanted, self._wanted = self._wanted, None
            self._parser.CharacterDataHandler = None
            self._ended(wanted, "".join(self._texts).strip())

    def _text(self, text: str) -> None:
        """What is too long is no URL any more, and need not be kept whole."""
        if self._length <= MAX_TEXT_LENGTH:
            self._texts.append(text)
            self._length += len(text)


def _refuse_entities(*_declaration: object) -> None:
    raise Enough(Cut.ENTITIES)
