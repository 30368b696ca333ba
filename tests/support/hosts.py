"""For tests that need hosts of their own."""

import os

import pytest

from devservers.hosts import can_make_hosts


def need_hosts() -> None:
    """Leaves out the test that calls it where there can be none; in CI it fails."""
    if not can_make_hosts():
        assert not os.environ.get("CI"), "CI must be able to make network namespaces"
        pytest.skip("only root may make network namespaces")
