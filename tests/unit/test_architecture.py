"""The import direction, held by a test: what may know whom, and what must stay pure."""

import importlib
import importlib.util
from pathlib import Path

import pytest

import manyhands
from tests.support import imports
from tests.support.imports import ROOT, ModuleTree

SERVICES = ("worker", "api", "broker")
PRODUCT = ("shared", *SERVICES)
FOLDERS = (*PRODUCT, "cli")
ALLOWED: dict[str, tuple[str, ...]] = {
    "shared": (),
    "worker": ("shared",),
    "api": ("shared",),
    "broker": ("shared",),
    "devservers": (),
    "requirements": (),
    "deploy": (),
    "docs": (),
    "loadtest": ("shared", "devservers"),
    "cli": ("shared",),
    "manyhands": ("shared", "worker"),
    "examples": ("manyhands",),
    "tests": (*PRODUCT, "devservers", "loadtest", "cli", "manyhands"),
}
# The rooms of each package, lowest first: a room imports only from those that stand before it. What
# is not named here is bound by the rule against circles alone.
ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "shared": (
        ("errors",),
        ("urls", "jobs"),
        ("crawl", "settings", "faktory"),
        ("crawl.store", "http"),
        ("sinks",),
        ("results",),
    ),
    "worker": (
        ("records", "service"),
        ("net", "aws"),
        ("crawl.politeness",),
        ("pages",),
        ("sinks",),
        ("jobs", "warc"),
        ("source", "crawl", "page_functions"),
        ("process",),
        ("supervision",),
        ("commands", "testing"),
        ("__main__",),
    ),
    "worker.crawl": (
        ("politeness", "announcement", "crawl_files", "metrics", "processor", "progress", "wakeup"),
        ("shards",),
        ("frontier", "leader"),
        ("fetching",),
        ("owner",),
    ),
    "broker": (
        ("jobs", "schema", "tally", "memory"),
        ("batches", "choices", "statements", "holders", "clients"),
        ("reading",),
        ("store", "queues"),
        ("registry", "sets"),
        ("reservations",),
        ("handout",),
        ("intake",),
        ("manager",),
        ("answers", "lines", "gate", "mutations"),
        ("fetches",),
        ("verbs",),
        ("turns", "http"),
        ("server",),
        ("process",),
    ),
    "api": (("problems",), ("intake",), ("batcher",), ("parts",), ("routes",), ("app",)),
    "cli": (("services",), ("watch",), ("crawl", "demo"), ("__main__",)),
    "loadtest": (
        ("lib",),
        ("lab", "web", "against"),
        ("load", "bench"),
        ("locustfiles", "one_run"),
        ("__main__",),
    ),
}
# From here on, the rooms of the broker know nothing of SQL.
FIRST_WITHOUT_SQL = ("registry", "sets")
# Benchmarks of which others use something; the rest know only themselves.
LENDING_BENCHMARKS = {"consumer", "crawl"}
# They are loaded by name, and may import what they like.
LOADED_BY_NAME = "worker.handlers"
MOST_MODULES_AT_THE_TOP = 8
CLOCKS_AND_NETWORK = ("time", "socket", "asyncio", "threading", "selectors", "ssl")
# What pure modules may use of them: a type annotation, and a name that the system has had since it
# started.
PURE_ENOUGH = {
    "worker.jobs.delivery": ("asyncio.Task",),
    "shared.faktory.handshake": ("socket.gethostname",),
}


@pytest.fixture(scope="module")
def tree() -> ModuleTree:
    return ModuleTree.of_repository()


def worker_handlers(tree: ModuleTree) -> list[tuple[str, str]]:
    """Modules of the load test that the worker loads by name, or that measure its own functions in
    a process of theirs: `handlers.py` of a folder, and no other."""
    return [
        (name, package)
        for name in tree.modules
        if name.startswith("loadtest.") and name.endswith(".handlers")
        for package in ("worker", "manyhands")
    ]


def test_packages_import_only_what_they_may_know(tree):
    assert imports.package_violations(tree, ALLOWED, worker_handlers(tree)) == []


def test_the_worker_is_known_only_to_handler_modules_of_the_load_test(tree):
    knowing = {
        module.name
        for module in tree.modules.values()
        if module.package not in ("worker", "tests", "examples", "manyhands")
        for found in tree.ours(module)
        if found.target.partition(".")[0] in ("worker", "manyhands")
    }
    assert knowing == {name for name, _ in worker_handlers(tree)}


def test_nobody_imports_the_tests(tree):
    assert [
        f"{module.name}:{found.line}"
        for module in tree.modules.values()
        if module.package != "tests"
        for found in module.imports
        if found.target.partition(".")[0] == "tests"
    ] == []


def test_no_modules_import_each_other_in_a_circle(tree):
    assert imports.cycles(tree) == []


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_those_below_them(tree, package):
    assert imports.room_violations(tree, package, ROOMS[package]) == []


def test_every_module_of_the_worker_is_in_a_room(tree):
    rooms = {f"worker.{room}" for level in ROOMS["worker"] for room in level}
    outside = {
        module.name
        for module in tree.within("worker")
        if not any(imports.is_within(module.name, room) for room in (*rooms, LOADED_BY_NAME))
    }
    assert outside == {"worker"}


def test_every_module_of_the_crawl_is_in_a_room(tree):
    rooms = {f"worker.crawl.{room}" for level in ROOMS["worker.crawl"] for room in level}
    outside = {
        module.name
        for module in tree.within("worker.crawl")
        if not any(imports.is_within(module.name, room) for room in rooms)
    }
    assert outside == {"worker.crawl"}


def test_few_modules_stand_at_the_top_of_the_worker():
    assert len(list((ROOT / "worker").glob("*.py"))) <= MOST_MODULES_AT_THE_TOP


def test_every_module_of_the_load_test_is_in_a_room(tree):
    rooms = [f"loadtest.{room}" for level in ROOMS["loadtest"] for room in level]
    outside = {
        module.name
        for module in tree.within("loadtest")
        if not any(imports.is_within(module.name, room) for room in rooms)
    }
    assert outside == {"loadtest"}


def test_benchmarks_are_named_by_nobody_and_know_few_of_each_other(tree):
    bench = "loadtest.bench."
    assert [
        f"{module.name}:{found.line} imports {found.target}"
        for module in tree.within("loadtest")
        for found in tree.ours(module)
        if found.target.startswith(bench)
        and not may_know(module.name, found.target.removeprefix(bench).partition(".")[0])
    ] == []


def may_know(module: str, benchmark: str) -> bool:
    own = f"loadtest.bench.{benchmark}"
    is_a_benchmark = module.startswith("loadtest.bench.")
    return imports.is_within(module, own) or (is_a_benchmark and benchmark in LENDING_BENCHMARKS)


def test_handlers_need_nothing_that_runs_them(tree):
    runs_them = {f"worker.{room}" for level in ROOMS["worker"][-4:] for room in level}
    assert [
        f"{module.name}:{found.line} imports {found.target}"
        for module in tree.within(LOADED_BY_NAME)
        for found in tree.ours(module)
        if any(imports.is_within(found.target, room) for room in runs_them)
    ] == []


def test_only_the_settings_read_the_environment(tree):
    readers = {
        name for name in imports.environment_readers(tree) if name.partition(".")[0] in PRODUCT
    }
    assert readers == {"shared.settings.environment"}


def test_the_broker_has_sql_only_below_what_its_manager_is_made_of(tree):
    rooms = ROOMS["broker"]
    above = rooms[rooms.index(FIRST_WITHOUT_SQL) :]
    writers = {name for name in imports.sql_writers(tree) if imports.is_within(name, "broker")}
    assert {"broker.batches", "broker.reading", "broker.statements"} <= writers
    assert writers & {f"broker.{room}" for level in above for room in level} == set()


def test_imports_stand_at_the_top_of_the_file(tree):
    assert imports.imports_in_functions(tree) == []


def test_a_module_that_calls_itself_pure_has_neither_clock_nor_network(tree):
    pure = [module for module in tree.modules.values() if module.package in FOLDERS]
    pure = [module for module in pure if module.says_pure]
    assert {"worker.source.window", "worker.source.scheduler", "shared.crawl.scope"} <= {
        module.name for module in pure
    }
    assert [
        found
        for module in pure
        for found in imports.impure_uses(
            module, CLOCKS_AND_NETWORK, PURE_ENOUGH.get(module.name, ())
        )
    ] == []


def test_the_product_is_imported_by_its_one_name(tree):
    """A project of somebody else may have an `api`, a `worker` and a `shared` of its own."""
    assert [
        f"{module.name}:{found.line} imports {found.target}"
        for module in tree.modules.values()
        for found in tree.ours(module)
        if found.target.partition(".")[0] in FOLDERS and not found.is_by_our_name
    ] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_ours_is_no_module_of_its_own(folder):
    with pytest.raises(ImportError, match=f"import manyhands.{folder}, not {folder}"):
        importlib.import_module(folder)


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_name_means_the_one_in_this_repository(package):
    spec = importlib.util.find_spec(f"manyhands.{package}" if package in FOLDERS else package)
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin).resolve().is_relative_to(ROOT)


def test_every_public_name_is_there():
    assert {name for name in manyhands.__all__ if getattr(manyhands, name)} == set(
        manyhands.__all__
    )


def test_the_tests_are_a_package_of_their_own():
    assert (ROOT / "tests" / "__init__.py").is_file()


def test_the_check_sees_this_repository(tree):
    assert {"shared.faktory.codec", "worker.source.window", "tests.unit.test_architecture"} <= set(
        tree.modules
    )
    connection = tree.modules["shared.faktory.connection"]
    assert "shared.faktory.handshake" in {found.target for found in tree.ours(connection)}


# The checks themselves, on made-up trees: each must find what it is there for.


def test_a_forbidden_package_is_found_however_it_is_imported():
    made_up = ModuleTree(
        {
            "shared/__init__.py": "",
            "shared/jobs.py": "from worker import window",
            "worker/__init__.py": "",
            "worker/window.py": "import api.routes",
            "api/__init__.py": "",
            "api/routes.py": "from shared.jobs import Job",
        }
    )
    assert imports.package_violations(made_up, ALLOWED, []) == [
        "shared.jobs:1 imports worker.window",
        "worker.window:1 imports api.routes",
    ]


def test_an_exempt_module_may_import_what_it_is_exempt_for():
    made_up = ModuleTree(
        {
            "worker/__init__.py": "",
            "loadtest/bench/some/handlers.py": "from worker import job",
            "loadtest/bench/some/other_handlers.py": "from worker import job",
        }
    )
    found = imports.package_violations(made_up, ALLOWED, worker_handlers(made_up))
    assert found == ["loadtest.bench.some.other_handlers:1 imports worker"]


def test_a_package_without_a_rule_is_found():
    assert imports.package_violations(ModuleTree({"extra/__init__.py": ""}), ALLOWED, []) == [
        "extra: no rule for the package extra"
    ]


def test_a_circle_is_found_even_through_type_checking():
    made_up = ModuleTree(
        {
            "shared/__init__.py": "",
            "shared/a.py": "from shared import b",
            "shared/b.py": "from .c import thing",
            "shared/c.py": (
                "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import shared.a\n"
            ),
        }
    )
    assert imports.cycles(made_up) == [["shared.a", "shared.b", "shared.c", "shared.a"]]


def test_a_room_that_looks_up_or_sideways_is_found():
    made_up = ModuleTree(
        {
            "worker/__init__.py": "",
            "worker/low/__init__.py": "",
            "worker/low/a.py": "from manyhands.worker.high.b import thing",
            "worker/low/c.py": "from manyhands.worker.low import a",
            "worker/high/__init__.py": "",
            "worker/high/b.py": "from manyhands.worker.low.inner import d",
            "worker/low/inner/__init__.py": "",
            "worker/low/inner/d.py": "from manyhands.worker.peer import thing",
            "worker/peer.py": "from manyhands.worker.high import b",
            "worker/elsewhere.py": "from manyhands.worker.high import b",
        }
    )
    levels = (("low.inner",), ("low",), ("high", "peer"))
    assert imports.room_violations(made_up, "worker", levels) == [
        "worker.low.a:1 imports worker.high.b",
        "worker.low.inner.d:1 imports worker.peer",
        "worker.peer:1 imports worker.high.b",
    ]


def test_an_import_inside_a_function_is_found():
    made_up = ModuleTree(
        {"shared/a.py": "import os\nasync def f():\n    if 1:\n        import re\n"}
    )
    assert imports.imports_in_functions(made_up) == ["shared.a:4 imports re inside a function"]


@pytest.mark.parametrize(
    "text",
    [
        "import os\nx = os.environ['A']",
        "import os\nx = os.getenv('A')",
        "from os import environ",
        "def f():\n    from os import getenv",
    ],
)
def test_a_look_at_the_environment_is_found(text):
    assert imports.environment_readers(ModuleTree({"shared/a.py": text})) == {"shared.a"}


def test_sql_is_found_in_any_string_but_not_in_what_explains_it():
    made_up = ModuleTree(
        {
            "broker/a.py": "write('DELETE FROM jobs')",
            "broker/b.py": "x = f'{name} = ? ORDER BY id'",
            "broker/c.py": '"""No SELECT value FROM here."""\n\ndef update(): \'Update it.\'\n',
        }
    )
    assert imports.sql_writers(made_up) == {"broker.a", "broker.b"}


def test_other_uses_of_the_system_are_no_look_at_the_environment():
    tree = ModuleTree({"shared/a.py": "import os\nx = os.getpid()"})
    assert imports.environment_readers(tree) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import time\nnow = time.monotonic()", ["worker.window uses time.monotonic"]),
        ("from time import monotonic", ["worker.window uses time.monotonic"]),
        ("import asyncio.events", ["worker.window uses asyncio.events"]),
        ("import asyncio\nx: asyncio.Task", []),
        (
            "import asyncio\nx: asyncio.Task\nasyncio.get_event_loop()",
            ["worker.window uses asyncio.get_event_loop"],
        ),
    ],
)
def test_a_clock_in_a_pure_module_is_found(text, found):
    module = ModuleTree({"worker/window.py": text}).modules["worker.window"]
    assert imports.impure_uses(module, CLOCKS_AND_NETWORK, ("asyncio.Task",)) == found
