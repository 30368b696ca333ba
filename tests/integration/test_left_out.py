"""What pytest does with tests whose programs this machine has not: says so, or in CI fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# Seconds: a whole pytest starts in each, beside others.
pytestmark = pytest.mark.timeout(120)

TEST_OF_KAFKA = (
    "tests/integration/test_output_servers.py::test_kafka_takes_records_and_gives_them_back"
)


def run_without_java(ci: str, empty: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PATH": str(empty), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, TEST_OF_KAFKA]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="one process", marks=pytest.mark.proof),
        pytest.param(("-n", "1"), id="xdist"),
    ],
)
def test_without_java_its_tests_are_left_out_with_a_line(tmp_path: Path, options: tuple[str, ...]):
    done = run_without_java("", tmp_path, *options)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
    assert "left out: 1 tests of Kafka and Elasticsearch; not on PATH: java" in done.stdout


def test_in_ci_they_fail(tmp_path: Path):
    done = run_without_java("true", tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "not on PATH: java; Kafka and Elasticsearch need a JDK" in done.stdout
