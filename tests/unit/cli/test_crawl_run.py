from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from manyhands.cli.api_client import Api
from manyhands.cli.crawl_run import check_output, find_order
from manyhands.cli.saved import read_kept
from manyhands.cli.seeds import UsageError

REQUEST: dict[str, Any] = {
    "contact": "me@example.org",
    "seeds": [f"https://{name}.example/" for name in "abcd"],
}


class ScriptedApi(Api):
    """Starts a crawl for each new key, as the real one does. State: the crawls."""

    def __init__(self) -> None:
        super().__init__(httpx.AsyncClient())
        self.keys: list[str] = []
        self.states: list[str] = []

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Any:
        assert path == "/crawls"
        assert headers is not None
        key = headers["Idempotency-Key"]
        if key not in self.keys:
            self.keys.append(key)
            self.states.append("running")
        return {"id": self.keys.index(key) + 1}

    async def get(self, path: str, **query: str | int) -> Any:
        return {"state": self.states[int(path.rpartition("/")[2]) - 1]}


async def test_a_directory_without_a_crawl_gets_a_new_one(tmp_path):
    order = await find_order(ScriptedApi(), tmp_path, REQUEST, None)
    assert (order.id, order.is_resumed) == (1, False)
    assert str(order).startswith("starting crawl 1 of https://a.example/, https://b.example/, ")
    assert str(order).endswith(" and 1 more")
    assert read_kept(tmp_path) == order.kept


@pytest.mark.parametrize("request_again", [REQUEST, None])
async def test_the_same_command_or_none_goes_on_with_what_is_unfinished(tmp_path, request_again):
    api = ScriptedApi()
    first = await find_order(api, tmp_path, REQUEST, "pages.ndjson")
    order = await find_order(api, tmp_path, request_again, None)
    assert (order.id, order.is_resumed) == (1, True)
    assert str(order).startswith("resuming crawl 1")
    assert order.kept == first.kept


async def test_another_command_is_refused_while_one_is_unfinished(tmp_path):
    api = ScriptedApi()
    await find_order(api, tmp_path, REQUEST, None)
    with pytest.raises(UsageError, match="has another crawl that is not finished"):
        await find_order(api, tmp_path, REQUEST | {"seeds": ["https://other.example/"]}, None)


async def test_after_its_end_the_same_command_starts_anew(tmp_path):
    api = ScriptedApi()
    await find_order(api, tmp_path, REQUEST, None)
    api.states[0] = "completed"
    order = await find_order(api, tmp_path, REQUEST, None)
    assert (order.id, order.is_resumed) == (2, False)


async def test_there_is_nothing_to_go_on_with_after_the_end(tmp_path):
    api = ScriptedApi()
    await find_order(api, tmp_path, REQUEST, None)
    api.states[0] = "limit_reached"
    with pytest.raises(UsageError, match="has ended; give URLs for another"):
        await find_order(api, tmp_path, None, None)


def test_records_are_not_added_to_those_of_another_crawl(tmp_path):
    file = tmp_path / "pages.ndjson"
    check_output(str(file))
    file.write_text("")
    check_output(str(file))
    file.write_text("{}\n")
    with pytest.raises(UsageError, match="is not empty"):
        check_output(str(file))
    with pytest.raises(UsageError, match="no such directory"):
        check_output(str(tmp_path / "nowhere" / "pages.ndjson"))
    check_output(None)


def test_a_folder_is_named_with_a_slash_and_is_empty(tmp_path):
    folder = tmp_path / "pages"
    check_output(f"{folder}/")
    folder.mkdir()
    check_output(f"{folder}/")
    with pytest.raises(UsageError, match=r"name a file, or .*/pages/ for a folder of \.md"):
        check_output(str(folder))
    (folder / "one.md").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        check_output(f"{folder}/")
    with pytest.raises(UsageError, match="is a file"):
        check_output(f"{folder / 'one.md'}/")
