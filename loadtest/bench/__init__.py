"""The benchmarks: each is a folder here, whose module `benchmark` has its record as BENCHMARK."""

import importlib
import pkgutil
from typing import Any

from loadtest.lib.benchmark import Benchmark


def benchmark_names() -> list[str]:
    return sorted(found.name for found in pkgutil.iter_modules(__path__))


def find_benchmark(name: str) -> Benchmark[Any, Any]:
    module = importlib.import_module(f"{__name__}.{name}.benchmark")
    found: Benchmark[Any, Any] = module.BENCHMARK
    return found
