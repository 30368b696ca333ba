"""The size of things, held by a test: how much a class does, how much it asks for, and that nothing
is said twice."""

import tomllib
from pathlib import Path

import pytest

from tests.support.classes import classes, services, services_asked_for
from tests.support.imports import ROOT, Module, ModuleTree
from tests.support.repeats import repeats

PRODUCT = ("shared", "worker", "api", "broker", "cli", "manyhands")
MOST_SERVICES = 8
MOST_METHODS = 20
# The classes through which every job or URL goes: a reader has to hold them in mind as a whole.
READ_WHOLE = {
    "worker.source.faktory.FaktorySource",
    "broker.manager.Manager",
    "broker.server.Connection",
    "worker.crawl.frontier.working_set.WorkingSet",
}
ALLOWED_REPEATS = Path(__file__).with_name("allowed_repeats.toml")


@pytest.fixture(scope="module")
def product() -> list[Module]:
    tree = ModuleTree.of_repository()
    return [module for module in tree.modules.values() if module.package in PRODUCT]


def test_no_constructor_asks_for_more_than_eight_services(product):
    known = services(product)
    assert {
        cls.name: asked
        for cls in classes(product)
        if len(asked := services_asked_for(cls, known)) > MOST_SERVICES
    } == {}


@pytest.mark.parametrize("name", sorted(READ_WHOLE))
def test_a_class_on_the_way_of_every_job_has_few_methods(product, name):
    [cls] = [cls for cls in classes(product) if cls.name == name]
    assert len(cls.methods) <= MOST_METHODS


def test_nothing_stands_twice_but_for_a_reason():
    """Six lines or more, to the letter or in shape; the reasons stand in allowed_repeats.toml."""
    sources = {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in ("api", "broker", "cli", "shared", "worker")
        for path in (ROOT / folder).rglob("*.py")
    }
    allowed = tomllib.loads(ALLOWED_REPEATS.read_text()).get("repeat", [])
    assert all(entry["reason"] for entry in allowed)
    found = {frozenset(repeat.places): str(repeat) for repeat in repeats(sources)}
    reasons = {frozenset(entry["places"]) for entry in allowed}
    assert [text for places, text in found.items() if places not in reasons] == []
    assert [sorted(places) for places in reasons if places not in found] == [], "no longer there"


# The checks themselves, on made-up sources: each must find what it is there for.

RUN = """
def {name}({value}):
    while {value}.read():
        {value} = list({value})
        if {value}:
            yield {value}.first
        {value}.close()
    return {value}
"""


def test_a_run_with_other_names_is_found():
    sources = {
        "a.py": RUN.format(name="first", value="rows"),
        "b.py": "import os\n\n\nclass B:\n"
        + RUN.replace("\n", "\n    ").format(name="second", value="lines"),
    }
    assert [repeat.places for repeat in repeats(sources)] == [("a.py:first", "b.py:B.second")]
    assert [repeat.lines for repeat in repeats(sources)] == [7]


def test_lists_of_values_count_only_to_the_letter():
    fields = "\n".join(f"    field_{number}: int" for number in range(6))
    one = f"class A:\n{fields}\n"
    assert repeats({"a.py": one, "b.py": one.replace("field", "other")}) == []
    assert [repeat.lines for repeat in repeats({"a.py": one, "b.py": one})] == [7]


def test_initial_state_and_fields_of_another_record_count_only_to_the_letter():
    lines = [
        *(f"self.field_{number} = 0" for number in range(3)),
        *("self.field_3 = None", "make(", "    field_4=row.field_4,", "    field_5=row.field_5,"),
        *("    field_6=row.field_6,", "    field_7=row.field_7,", ")"),
    ]
    one = "def f(self, row):\n" + "".join(f"    {line}\n" for line in lines)
    assert repeats({"a.py": one, "b.py": one.replace("field", "other")}) == []
    assert [repeat.lines for repeat in repeats({"a.py": one, "b.py": one})] == [10]


SIGNATURE = """
    def read(
        self,
        first: int,
        second: int,
        third: str,
        fourth: bytes,
    ) -> None: ...
"""


def test_an_implementation_repeats_the_signature_of_its_protocol():
    protocol = f"class Reader(Protocol):\n{SIGNATURE}"
    generic = f"class Reader(Protocol[T]):\n{SIGNATURE}"
    one, other = (f"class {name}:\n{SIGNATURE}" for name in ("A", "B"))
    assert repeats({"a.py": protocol, "b.py": one}) == []
    assert repeats({"a.py": generic, "b.py": one}) == []
    assert [repeat.lines for repeat in repeats({"a.py": one, "b.py": other})] == [6]
    assert [repeat.lines for repeat in repeats({"a.py": protocol, "b.py": generic})] == [6]


def test_docstrings_comments_and_imports_do_not_count():
    text = "import os\nimport re\n# a\n# b\ndef f():\n    '''one\n\n    two\n    three'''\n"
    assert repeats({"a.py": text, "b.py": text}) == []


def test_what_a_constructor_asks_for_is_counted_without_data_and_defaults():
    made_up = ModuleTree(
        {
            "worker/a.py": (
                "@dataclass(frozen=True)\nclass Data:\n    x: int\n"
                "class Service: ...\n"
                "Push = Callable[[int], None]\n"
                "class A:\n    def __init__(self, one: Service, two: 'Service', push: Push,\n"
                "        data: Data, count: int, *, later: Service | None = None,\n"
                "        must: Callable[[], float]) -> None: ...\n"
                "@dataclass\nclass B:\n    one: list[Service]\n    two: int\n    x: Service = 1\n"
            )
        }
    )
    modules = list(made_up.modules.values())
    asked = {cls.node.name: services_asked_for(cls, services(modules)) for cls in classes(modules)}
    assert asked == {"Data": [], "Service": [], "A": ["one", "two", "push", "must"], "B": ["one"]}
