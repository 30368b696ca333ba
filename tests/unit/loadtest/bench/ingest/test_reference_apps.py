"""What the API is compared with runs under the same server settings, and says the same."""

import ast
from pathlib import Path

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import manyhands.api.__main__
from loadtest.bench.ingest import reference_apps
from loadtest.bench.ingest.reference_apps import APPS, UVICORN
from manyhands.shared.http.protocol import HttpProtocol
from manyhands.shared.http.serving import SERVER_OPTIONS

# What each serves, and its own HTTP protocol, which is the one of the references made stricter.
OF_THE_API = {"factory", "http"}


def settings_of_the_api() -> dict[str, object]:
    """What api/__main__.py calls uvicorn.run with, as far as it is constant."""
    tree = ast.parse(Path(manyhands.api.__main__.__file__).read_text())
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "uvicorn.run"
    ]
    assert [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None] == [
        "SERVER_OPTIONS"
    ]
    return SERVER_OPTIONS | {
        str(keyword.arg): keyword.value.value
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Constant)
    }


def test_the_references_run_under_the_settings_of_the_api():
    settings = settings_of_the_api()
    assert {name: settings[name] for name in settings.keys() - OF_THE_API} == {
        name: UVICORN[name] for name in UVICORN.keys() - OF_THE_API
    }
    assert UVICORN["http"] == "httptools" and issubclass(HttpProtocol, HttpToolsProtocol)


@pytest.mark.parametrize("name", APPS)
async def test_a_reference_accepts_a_job_without_a_look_at_it(name):
    transport = httpx.ASGITransport(APPS[name])
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/jobs/add", content=b"anything")
    assert answer.status_code == 202
    assert answer.json() == reference_apps.ANSWER
