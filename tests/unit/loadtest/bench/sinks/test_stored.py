"""The check that a sink has everything exactly once."""

import pytest

from loadtest.bench.sinks.stored import check_each_once
from loadtest.lib.errors import RunError


def test_each_once_in_any_order_is_right():
    check_each_once("warc", ["a", "b"], ["b", "a"])


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (["a"], "1 of 2: 1 missing, such as b"),
        (["a", "b", "c"], "3 of 2: 1 unknown, such as c"),
        (["a", "b", "a"], "3 of 2: 1 more than once, such as a"),
        (["c"], "1 of 2: 2 missing, such as a, b; 1 unknown, such as c"),
    ],
)
def test_whatever_else_is_told(found, told):
    with pytest.raises(RunError, match=f"^warc has {told}$"):
        check_each_once("warc", ["a", "b"], found)
