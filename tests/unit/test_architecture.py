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
    "loadtest": ("shared", "devservers"),
    "cli": ("shared",),
    "manyhands": ("shared", "worker"),
    "examples": ("manyhands",),
    "tests": (*PRODUCT, "devservers", "loadtest", "cli", "manyhands"),
}
FAKTORY_LAYERS = (
    ("backoff", "codec"),
    ("handshake",),
    ("connection",),
    ("dialer",),
    ("lanes",),
    ("client",),
)
WORKER_LAYERS = (
    ("net.byte_budget",),
    (
        *("outcomes", "window", "queues", "lane_plan", "drain", "page_ids", "bodies"),
        *("resources", "net", "net.addresses", "net.buckets", "net.fetcher", "records"),
        *("sinks", "sinks.files", "sinks.files.places", "sinks.files.segment_file"),
        *("sinks.servers", "sinks.servers.server_url"),
        *("warc", "warc.digests", "warc.streams", "warc.threads", "warc.wat"),
        *("charset", "html_guard", "net.dns_cache", "net.idle", "net.tls"),
        *("stages", "scheduler", "pressure", "link", "task_dump", "loop_lag", "exits"),
        *("fork_safety", "settings", "crawl", "crawl.ready", "crawl.allowance", "held_jobs"),
        "crawl.reachability",
    ),
    (
        *("delivery", "net.resolver", "net.encodings", "size_command", "config_command"),
        *("net.dns", "net.reasons", "net.outcomes", "families"),
        *("sinks.protocol", "sinks.files.manifest", "sinks.files.s3"),
        *("warc.frames", "warc.s3_objects", "warc.writing"),
        *("child_link", "crawl.politeness", "crawl.robots"),
    ),
    (
        *("context", "source", "net.http1", "net.following", "command_line", "in_flight"),
        *("crawl.robots_source", "crawl.robots_tags"),
        *("sinks.lane", "sinks.kinds", "sinks.rows", "sinks.files.segments"),
        *("warc.http_source", "warc.payloads"),
    ),
    (
        *("net.http1_connection", "html", "warc.reading", "warc.sources", "sinks.sinks"),
        *("sinks.files.batches", "sinks.files.line_files", "sinks.files.publishing"),
        *("sinks.files.parquet_tables", "sinks.servers.postgres_tables"),
        *("sinks.servers.kafka_messages", "sinks.servers.elasticsearch_bulk"),
    ),
    (
        *("net.http1_fetcher", "pages", "stage_services"),
        *("sinks.files.file_sink", "sinks.files.stores"),
        *("sinks.servers.postgres", "sinks.servers.kafka", "sinks.servers.elasticsearch"),
        *("warc.chunks", "warc.tables", "warc.outputs"),
    ),
    ("sinks.files.jsonl", "sinks.files.warc", "sinks.files.parquet", "warc.exporting"),
    (
        *("crawl.figures", "crawl.tasks", "crawl.crawls", "crawl.endings"),
        *(
            "crawl.control",
            "crawl.leases",
            "crawl.loading",
            "crawl.pages",
            "crawl.progress",
            "crawl.store_thread",
        ),
        "crawl.hosts",
    ),
    ("crawl.links", "crawl.settling", "crawl.outbox", "crawl.leader"),
    ("crawl.desk", "crawl.working_set"),
    ("crawl.visits", "crawl.orders"),
    ("crawl.feed",),
    ("crawl.leasing",),
    ("crawl.owner",),
    ("registry",),
    ("execution", "results", "stage_lanes"),
    ("settlement",),
    ("consumer", "faktory_source", "heartbeat", "observers", "testing"),
    ("figures",),
    ("process",),
    ("child",),
    (
        *("supervision", "supervision.status", "supervision.emf", "supervision.limits"),
        *("supervision.liveness", "supervision.restarts", "supervision.plan", "supervision.proc"),
        *("supervision.backlog", "supervision.left_behind"),
    ),
    ("supervision.server_view",),
    ("supervision.stage_summary", "supervision.health", "supervision.child_handle"),
    ("supervision.metrics", "supervision.place"),
    ("supervision.http", "supervision.cloudwatch", "supervision.supervisor"),
    ("supervision.service",),
    ("__main__",),
)
SETTINGS_LAYERS = (
    ("addresses",),
    ("sections",),
    ("names", "environment"),
    ("layers", "options"),
    ("indirect",),
    ("loading",),
)
HTTP_LAYERS = (
    ("limits", "problems", "hosts"),
    ("transport", "answers"),
    ("protocol",),
    ("serving",),
)
STATE_LAYERS = (
    ("model", "schema", "clock", "damage"),
    ("protocol", "database"),
    ("tally", "resplit", "sqlite_reader", "sqlite_robots", "sqlite_links"),
    ("admission", "sqlite_control", "new_generation"),
    ("sqlite_shard",),
    ("directory",),
    ("readers",),
    ("old_shard",),
    ("reshard",),
)
BROKER_LAYERS = (
    ("schema", "jobs", "known", "checksums", "tally", "pages", "progress", "memory"),
    ("damage", "batches", "retries", "clients", "holders"),
    ("walking",),
    ("reading",),
    ("directory", "queues"),
    ("store", "checking", "recovery"),
    ("sets",),
    ("manager", "answers"),
    ("mutations",),
    ("verbs",),
    ("server", "http"),
    ("process",),
    ("__main__",),
)
API_LAYERS = (
    ("problems", "keys", "metrics"),
    ("budget", "intake", "bodies", "guard", "siblings"),
    (
        *("batcher", "replies", "crawls", "crawls.model", "crawls.seeds", "crawls.paging"),
        *("crawls.rates", "crawls.limited_by", "crawls.files", "crawls.orders", "crawls.census"),
        "crawls.store",
    ),
    ("crawls.dry_run", "crawls.views"),
    ("crawls.desk",),
    ("stream", "parts"),
    ("single", "routes"),
    ("crawls.routes",),
    ("openapi",),
    ("app",),
    ("__main__",),
)
CLI_LAYERS = (
    ("consoles", "cuts", "stall", "stop", "api_client", "figures", "seeds", "with_parent"),
    ("services", "arguments", "kept", "summary"),
    ("order", "watch"),
    ("crawl", "demo", "up", "submit", "status"),
    ("warc",),
    ("__main__",),
)
CLOCKS_AND_NETWORK = ("time", "socket", "asyncio", "threading", "selectors", "ssl")
# A type annotation, and a name that the system has had since it started.
PURE: dict[str, tuple[str, ...]] = {
    "api.budget": (),
    "api.crawls.dry_run": (),
    "api.crawls.limited_by": (),
    "api.crawls.model": (),
    "api.crawls.paging": (),
    "api.crawls.rates": (),
    "api.crawls.seeds": (),
    "api.crawls.views": (),
    "api.guard": (),
    "api.intake": (),
    "api.keys": (),
    "api.metrics": (),
    "api.problems": (),
    "broker.clients": (),
    "broker.holders": ("broker.memory",),
    "broker.known": (),
    "broker.memory": (),
    "broker.retries": (),
    "cli.figures": (),
    "cli.stall": (),
    "worker.window": (),
    "worker.queues": (),
    "worker.drain": (),
    "worker.lane_plan": (),
    "worker.link": (),
    "worker.pressure": (),
    "worker.scheduler": (),
    "worker.stages": (),
    "worker.exits": (),
    "worker.supervision.backlog": (),
    "worker.supervision.emf": (),
    "worker.supervision.health": (),
    "worker.supervision.left_behind": (),
    "worker.supervision.liveness": (),
    "worker.supervision.plan": (),
    "worker.supervision.restarts": (),
    "worker.supervision.stage_summary": (),
    "worker.supervision.status": (),
    "worker.delivery": ("asyncio.Task",),
    "worker.bodies": (),
    "worker.crawl.allowance": (),
    "worker.crawl.politeness": (),
    "worker.crawl.reachability": (),
    "worker.crawl.ready": (),
    "worker.crawl.robots": (),
    "worker.crawl.robots_tags": (),
    "worker.html": (),
    "worker.html_guard": (),
    "worker.page_ids": (),
    "worker.records": (),
    "worker.sinks.files.places": (),
    "worker.sinks.rows": (),
    "worker.sinks.servers.elasticsearch_bulk": (),
    "worker.sinks.servers.kafka_messages": (),
    "worker.sinks.servers.postgres_tables": (),
    "worker.sinks.servers.server_url": (),
    "worker.warc.digests": (),
    "worker.warc.wat": (),
    "worker.warc.writing": (),
    "worker.pages": (),
    "worker.net.addresses": (),
    "worker.net.byte_budget": (),
    "worker.charset": (),
    "worker.net.dns_cache": (),
    "worker.net.encodings": (),
    "worker.net.fetcher": (),
    "worker.net.idle": (),
    "shared.budget": (),
    "shared.clock": (),
    "shared.crawl.canonical": (),
    "shared.crawl.cuts": (),
    "shared.crawl.exclusions": (),
    "shared.crawl.globs": (),
    "shared.crawl.messages": (),
    "shared.crawl.patience": (),
    "shared.crawl.scope": (),
    "shared.crawl.spec": (),
    "shared.crawl.states": (),
    "shared.crawl.traps": (),
    "shared.http.hosts": (),
    "shared.http.limits": (),
    "shared.http.problems": (),
    "shared.sizing": (),
    "shared.urls": (),
    "shared.faktory.codec": (),
    "shared.faktory.handshake": ("socket.gethostname",),
}


@pytest.fixture(scope="module")
def tree() -> ModuleTree:
    return ModuleTree.of_repository()


def worker_handlers(tree: ModuleTree) -> list[tuple[str, str]]:
    """Modules of the load test that the worker loads by name."""
    return [
        (name, package)
        for name in tree.modules
        if name.endswith("handlers")
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
    assert knowing <= {name for name, _ in worker_handlers(tree) if name.startswith("loadtest.")}


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


def test_the_faktory_client_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "shared.faktory", FAKTORY_LAYERS) == []
    assert imports.layer_violations(tree, "shared.settings", SETTINGS_LAYERS) == []


def test_the_http_front_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "shared.http", HTTP_LAYERS) == []


def test_the_state_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "shared.state", STATE_LAYERS) == []


def test_the_worker_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "worker", WORKER_LAYERS, free=("handlers",)) == []


def test_the_broker_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "broker", BROKER_LAYERS) == []


def test_the_api_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "api", API_LAYERS) == []


def test_the_command_line_is_built_in_layers(tree):
    assert imports.layer_violations(tree, "cli", CLI_LAYERS) == []


def test_handlers_need_nothing_above_the_registry(tree):
    registry_at = WORKER_LAYERS.index(("registry",))
    usable = {f"worker.{name}" for layer in WORKER_LAYERS[: registry_at + 1] for name in layer}
    assert [
        f"{module.name}:{found.line} imports {found.target}"
        for module in tree.within("worker.handlers")
        for found in tree.ours(module)
        if found.target.startswith("worker")
        and found.target not in {"worker", *usable}
        and not found.target.startswith("worker.handlers")
    ] == []


def test_only_the_settings_read_the_environment(tree):
    readers = {
        name for name in imports.environment_readers(tree) if name.partition(".")[0] in PRODUCT
    }
    assert readers == {"shared.settings.environment"}


def test_imports_stand_at_the_top_of_the_file(tree):
    assert imports.imports_in_functions(tree) == []


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_has_neither_clock_nor_network(tree, name):
    module = tree.modules[name]
    assert imports.impure_uses(module, CLOCKS_AND_NETWORK, PURE[name]) == []


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
    assert {"shared.faktory.codec", "worker.window", "tests.unit.test_architecture"} <= set(
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
            "loadtest/some_handlers.py": "from worker import job",
            "loadtest/lab.py": "from worker import job",
        }
    )
    found = imports.package_violations(made_up, ALLOWED, worker_handlers(made_up))
    assert found == ["loadtest.lab:1 imports worker"]


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


def test_a_lower_layer_that_looks_up_is_found_and_so_is_a_module_without_layer():
    made_up = ModuleTree(
        {
            "worker/__init__.py": "",
            "worker/low.py": "from worker.high import thing",
            "worker/high.py": "from worker import low",
            "worker/peer.py": "from worker.high import thing",
            "worker/whole.py": "import worker",
            "worker/handlers/__init__.py": "from worker.high import thing",
            "worker/loader.py": "from worker import handlers",
            "worker/stray.py": "",
        }
    )
    layers = (("low",), ("high", "peer"), ("whole", "loader"))
    assert imports.layer_violations(made_up, "worker", layers, free=("handlers",)) == [
        "worker.low:1 imports worker.high",
        "worker.peer:1 imports worker.high",
        "worker.whole:1 imports worker",
        "worker.loader:1 imports worker.handlers",
        "worker.stray has no layer",
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
