"""The list of what is in the image: all of the lock, in a form that scanners read."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
SCRIPT = REQUIREMENTS / "sbom.py"
LOCK = """\
Some_Package[extra]==1.2.3 \\
    --hash=sha256:ab
    # via manyhands (pyproject.toml)
for-others==4 ; sys_platform == 'win32' \\
    --hash=sha256:cd
for-us==5 ; sys_platform != 'win32' \\
    --hash=sha256:ef
"""


@pytest.fixture
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_lists_what_belongs_on_this_machine(sbom):
    assert [one["purl"] for one in sbom.components(LOCK)] == [
        "pkg:pypi/some-package@1.2.3",
        "pkg:pypi/for-us@5",
    ]


def test_the_same_lock_gives_the_same_document(sbom):
    assert sbom.document(LOCK) == sbom.document(LOCK)
    changed = LOCK.replace("1.2.3", "1.2.4")
    assert sbom.document(LOCK)["serialNumber"] != sbom.document(changed)["serialNumber"]


def test_it_has_every_package_of_the_image():
    lock = REQUIREMENTS / "runtime.lock"
    printed = subprocess.run(
        [sys.executable, SCRIPT, lock], capture_output=True, text=True, check=True, timeout=25
    ).stdout
    document = json.loads(printed)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    pinned = set(re.findall(r"^([\w.-]+)(?:\[.*?\])?==", lock.read_text(), re.MULTILINE))
    names = {one["name"] for one in document["components"]}
    # Those of other systems are left out.
    assert names <= pinned
    assert {"aiohttp", "uvloop", "psycopg", "confluent-kafka"} <= names
    references = [one["bom-ref"] for one in document["components"]]
    assert len(references) == len(set(references))
