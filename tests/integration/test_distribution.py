"""What is published: an sdist and a wheel, and a project elsewhere that uses them.

The project has an `api`, a `worker` and a `shared` of its own. It is checked, tested and run with
nothing of this checkout on its path.
"""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manyhands.shared.version import VERSION
from tests.support.imports import ROOT
from tests.support.once_per_run import made_once, run_directory
from tests.support.waiting import eventually

FOLDERS = ("api", "broker", "cli", "shared", "worker")
PROJECT = {
    "api/__init__.py": "GREETING = 'hello'\n",
    "worker/__init__.py": "",
    "worker/paths.py": "from pathlib import Path\n\nBOOK = Path('greetings.txt')\n",
    "shared/__init__.py": "",
    "shared/names.py": "def shown(name: str) -> str:\n    return name.title()\n",
    "jobs.py": """\
from api import GREETING
from manyhands import JobContext, Retry, job
from shared.names import shown
from worker.paths import BOOK


@job("greet")
async def greet(name: str, context: JobContext) -> None:
    if not name:
        raise Retry(after_s=60)
    with BOOK.open("a") as book:
        book.write(f"{GREETING} {shown(name)}\\n")
    context.emit({"greeted": name})
""",
    "test_jobs.py": """\
import jobs
from manyhands.testing import Done, Retry, run_job_sync


def test_greeting() -> None:
    assert jobs.greet is not None
    assert isinstance(run_job_sync("greet", "test").outcome, Done)
    assert isinstance(run_job_sync("greet", "").outcome, Retry)
""",
    "produce.py": """\
import asyncio
import sys

from manyhands import Client, Job


async def main() -> None:
    async with Client.from_url(sys.argv[1]) as client:
        await client.push(Job(jobtype="greet", args=["world"]))


asyncio.run(main())
""",
}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of both; the wheel is made from the sdist, as an installer would."""

    def build(directory: Path) -> None:
        run("-m", "build", "--no-isolation", "--outdir", directory, ROOT, python=sys.executable)

    return made_once(run_directory(request, tmp_path_factory), build)


def wheel(built: Path) -> Path:
    (found,) = built.glob("manyhands-*.whl")
    return found


def run(*arguments: object, python: object, cwd: Path | None = None) -> str:
    """Without the paths of this checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), *map(str, arguments)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def modules_of_this_checkout() -> Counter[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS, "src"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    files = [name for name in listed if (ROOT / name).is_file()]
    return Counter(
        name.removeprefix("src/") if name.startswith("src/") else f"manyhands/{name}"
        for name in files
    )


def test_the_wheel_has_every_module_once_and_nothing_else(built: Path) -> None:
    names = Counter(zipfile.ZipFile(wheel(built)).namelist())
    files = Counter({name: n for name, n in names.items() if ".dist-info/" not in name})
    assert files == modules_of_this_checkout()
    assert "manyhands/py.typed" in files


def test_the_sdist_has_every_module_once(built: Path) -> None:
    top = f"manyhands-{VERSION}/"
    with tarfile.open(built / f"manyhands-{VERSION}.tar.gz") as archive:
        names = [
            name.removeprefix(top)
            for name in archive.getnames()
            if name.endswith((".py", "py.typed"))
        ]
    there = Counter(
        name.removeprefix("src/") if name.startswith("src/") else f"manyhands/{name}"
        for name in names
    )
    assert there == modules_of_this_checkout()


def test_it_could_be_published(built: Path) -> None:
    archive = zipfile.ZipFile(wheel(built))
    metadata = archive.read(f"manyhands-{VERSION}.dist-info/METADATA").decode()
    assert "Do Not Upload" not in metadata
    assert "License-Expression: MIT" in metadata
    assert "Classifier: Typing :: Typed" in metadata


@pytest.fixture(scope="session")
def python(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An environment with the wheel and what a worker and a broker need, in the versions that are
    locked here."""

    def install(directory: Path) -> None:
        venv.create(directory, with_pip=True)
        lock = (ROOT / "requirements" / "runtime.lock").read_text()
        constraints = directory / "constraints.txt"
        constraints.write_text("\n".join(re.findall(r"^[\w.-]+==[^\s;]+", lock, re.MULTILINE)))
        run(
            *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint"),
            *(constraints, f"{wheel(built)}[worker,broker]"),
            python=directory / "bin" / "python",
        )

    return made_once(run_directory(request, tmp_path_factory), install) / "bin" / "python"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    for name, text in PROJECT.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.mark.proof
def test_a_project_with_folders_of_the_same_names_passes_mypy(python: Path, project: Path) -> None:
    said = run(
        *("-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", os.devnull),
        *("jobs.py", "test_jobs.py", "produce.py"),
        python=sys.executable,
        cwd=project,
    )
    assert "no issues found in 3 source files" in said


def test_its_handlers_are_tested(python: Path, project: Path) -> None:
    program = "import test_jobs; test_jobs.test_greeting(); print('passed')"
    assert run("-c", program, python=python, cwd=project) == "passed\n"
    (project / "greetings.txt").unlink()


@contextmanager
def service(
    python: Path, name: str, log: Path, cwd: Path, settings: dict[str, str]
) -> Iterator[None]:
    """`manyhands name` of that environment, as a process."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python.with_name("manyhands"), name],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], **settings},
            stdout=output,
            stderr=output,
        )
    try:
        yield
        process.terminate()
        assert process.wait(40) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def broker_url(python: Path, tmp_path: Path) -> AsyncIterator[str]:
    log = tmp_path / "broker.log"
    settings = {"BROKER_BIND": "127.0.0.1:0", "BROKER_HTTP_BIND": "127.0.0.1:0"}
    with service(python, "broker", log, tmp_path, settings):
        found = await eventually(lambda: re.search(r'"address": "([^"]+)"', log.read_text()))
        assert found is not None
        yield f"tcp://{found[1]}"


async def test_its_jobs_are_pushed_and_done(
    python: Path, project: Path, broker_url: str, tmp_path: Path
) -> None:
    settings = {
        "FAKTORY_URL": broker_url,
        "WORKER_HANDLERS": "jobs",
        "WORKER_HTTP_BIND": "127.0.0.1:0",
        "SINKS": f"jsonl:{tmp_path / 'records.ndjson'}",
    }
    with service(python, "worker", tmp_path / "worker.log", project, settings):
        run("produce.py", broker_url, python=python, cwd=project)
        book = project / "greetings.txt"
        await eventually(lambda: book.exists() and book.read_text() == "hello World\n")
    assert '"greeted":"world"' in (tmp_path / "records.ndjson").read_text()


def test_what_is_not_installed_is_named_with_the_extra_that_has_it(
    python: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [python.with_name("manyhands"), "crawl", "https://example.org"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr == ("manyhands: httpx, rich not installed: pip install 'manyhands[cli]'\n")
