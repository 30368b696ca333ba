"""What CI and a release are made of."""

import importlib.util
import re
import subprocess
import sys
from types import ModuleType

import pytest
import yaml

from tests.support.compose import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
CHANGELOG = """\
# Changes

## Unreleased

## 0.2.0
- new

### Fixed
- old

## 0.1.0
- first
"""
MAKE = re.compile(r"\bmake ((?:[a-z-]+ ?)+)")


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """A script, not a package."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "deploy" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets(text: str) -> set[str]:
    return {name for found in MAKE.findall(text) for name in found.split()}


def test_the_notes_are_the_section_of_the_version(release):
    assert release.notes_of(CHANGELOG, "0.2.0") == (
        "# Manyhands 0.2.0\n\n- new\n\n### Fixed\n- old\n"
    )
    assert release.notes_of(CHANGELOG, "0.1.0") == "# Manyhands 0.1.0\n\n- first\n"


def test_before_its_section_is_named_a_release_has_what_is_unreleased(release, capsys):
    changelog = "## Unreleased\n- soon\n"
    assert release.notes_of(changelog, "0.3.0") == "# Manyhands 0.3.0\n\n- soon\n"
    assert "no section 0.3.0" in capsys.readouterr().out


def test_there_is_no_release_of_which_nothing_is_said(release):
    with pytest.raises(ValueError, match=r"says nothing of 0\.3\.0"):
        release.notes_of(CHANGELOG, "0.3.0")


def test_of_this_version_something_is_said(release):
    version = release.version_of((ROOT / "pyproject.toml").read_text())
    assert release.notes_of((ROOT / "CHANGELOG.md").read_text(), version)


def test_sha256sum_accepts_the_checksums(release, tmp_path):
    files = [tmp_path / name for name in ("a.whl", "b.tar.gz")]
    for path in files:
        path.write_text(path.name)
    (tmp_path / "SHA256SUMS").write_text(release.checksums(files))
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True)
    files[0].write_text("something else")
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path)
    assert done.returncode == 1


def test_the_workflow_is_valid():
    command = [sys.executable, "-m", "check_jsonschema"]
    done = subprocess.run(
        [*command, "--builtin-schema", "vendor.github-workflows", WORKFLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_workflow_calls_what_judges_a_change_here():
    steps = [
        step.get("run", "")
        for job in yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
        for step in job["steps"]
    ]
    called = set().union(*map(targets, steps))
    judged = targets((ROOT / ".ci" / "run").read_text())
    assert judged == {"test", "audit"}
    assert called == judged | {"image", "container-tools", "test-containers"}
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert called <= known
