"""Exclusions that several crawls have in common are in memory once."""

import gc

from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import ScopeSpec
from manyhands.worker.crawl.crawl_files import SharedExclusions


def test_crawls_with_the_same_exclusions_share_them_as_long_as_one_of_them_lives():
    shared = SharedExclusions()
    scopes = [Scope(ScopeSpec(), shared.parsed("a.com\n*/x/*\n")) for _ in range(2)]
    assert scopes[0].exclusions is scopes[1].exclusions
    assert shared.parsed("b.com\n") is not scopes[0].exclusions
    first = id(scopes.pop().exclusions)
    gc.collect()
    assert id(shared.parsed("a.com\n*/x/*\n")) == first
    scopes.clear()
    gc.collect()
    assert not shared.in_use
