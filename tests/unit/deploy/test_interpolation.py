"""Compose's rules for variables, as tests/support/compose.py applies them to our files."""

import pytest

from tests.support.compose import MissingVariable, interpolate, variables_of


@pytest.mark.parametrize(
    ("text", "variables", "result"),
    [
        ("plain", {}, "plain"),
        ("${A}", {"A": "1"}, "1"),
        ("${A}", {}, ""),
        ("x${A}y${B}z", {"A": "1", "B": "2"}, "x1y2z"),
        ("${A:-default}", {}, "default"),
        ("${A:-default}", {"A": ""}, "default"),
        ("${A:-default}", {"A": "1"}, "1"),
        ("${A:-}", {}, ""),
        ("${A:?say it}", {"A": "1"}, "1"),
        ("$$A", {"A": "1"}, "$A"),
        # A value is not looked at again.
        ("${A}", {"A": "${B}", "B": "1"}, "${B}"),
    ],
)
def test_variables_are_replaced(text, variables, result):
    assert interpolate(text, variables) == result


@pytest.mark.parametrize("variables", [{}, {"A": ""}])
def test_a_file_that_insists_on_a_variable_is_refused_without_it(variables):
    with pytest.raises(MissingVariable, match=r"^A: set it in \.env$"):
        interpolate({"services": [{"key": "x-${A:?set it in .env}"}]}, variables)


@pytest.mark.parametrize("text", ["$A", "${A", "${A:+x}", "${A?x}", "${}", "costs 5 $"])
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(ValueError, match="not a variable that this test can read"):
        interpolate(text, {"A": "1"})


def test_only_values_are_replaced_and_other_types_stay():
    given = {"${A}": ["${A}", 1, True, None, {"x": "${A}"}]}
    assert interpolate(given, {"A": "1"}) == {"${A}": ["1", 1, True, None, {"x": "1"}]}


def test_the_variables_of_a_file_are_found():
    assert variables_of({"a": ["${A:?x}", "${B:-x}"], "b": {"c": "${C} $$D", "d": 1}}) == {
        "A",
        "B",
        "C",
    }
