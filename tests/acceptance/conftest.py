"""What the tests of crawls share. A module says in WEB what its web is like."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.web.synthetic_web import SyntheticWeb
from tests.support.crawling import Crawling


@pytest.fixture
def web(request: pytest.FixtureRequest) -> Iterator[SyntheticWeb]:
    with SyntheticWeb(request.module.WEB) as web:
        yield web


@pytest.fixture
def state_place(tmp_path: Path) -> str:
    """A directory; for a module about another kind of store, what it says."""
    return str(tmp_path / "state")


@pytest.fixture
def crawling(state_place: str, web: SyntheticWeb) -> Iterator[Crawling]:
    crawling = Crawling(state_place, web)
    yield crawling
    crawling.close()
