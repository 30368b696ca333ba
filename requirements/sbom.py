"""What is in the image, as CycloneDX JSON: every package of a lock that belongs on this machine.

`python requirements/sbom.py requirements/runtime.lock`. The Dockerfile keeps what it prints in the
image; a scanner reads it there. The same lock always gives the same text.
"""

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

from pip._vendor.packaging.markers import Marker

# `name[extra]==1.2.3 ; marker \`
PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ \\;]+)(?: ; (?P<marker>[^\\\n]+))?",
    re.MULTILINE,
)


def components(lock: str) -> list[dict[str, Any]]:
    return [
        _component(found["name"], found["version"])
        for found in PINNED.finditer(lock)
        if not found["marker"] or Marker(found["marker"].strip()).evaluate()
    ]


def _component(name: str, version: str) -> dict[str, Any]:
    # As PyPI writes names in addresses.
    address = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
    return {
        "type": "library",
        "bom-ref": address,
        "name": name,
        "version": version,
        "purl": address,
    }


def document(lock: str) -> dict[str, Any]:
    found = components(lock)
    identity = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(one["purl"] for one in found))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "manyhands"}},
        "components": found,
    }


def main() -> int:
    lock = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(json.dumps(document(lock), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
