"""kustomize, which renders Kubernetes manifests: built from its pinned source, as the servers are.

A module of its own in go/kustomize, so that its dependencies are not those of the servers.
"""

import functools
from pathlib import Path

from devservers.build import CACHE, GO_SOURCE, fingerprint, go_build, made_once

PACKAGE = "sigs.k8s.io/kustomize/kustomize/v5"
MODULE = GO_SOURCE / "kustomize"


@functools.cache
def kustomize() -> Path:
    """Return the program, and build it first if nobody has yet."""
    name = fingerprint(PACKAGE, [MODULE / "go.mod", MODULE / "go.sum"])
    return made_once(CACHE / f"kustomize-{name}", _build_into) / "kustomize"


def _build_into(target: Path) -> None:
    go_build(PACKAGE, target / "kustomize", MODULE)
