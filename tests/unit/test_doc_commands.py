"""The reader of a page's commands."""

import signal
from pathlib import Path

import pytest

from tests.support import doc_commands
from tests.support.doc_commands import ROOT, Command, blocks, commands, run, shape

PAGE = """\
# A page

```sh
echo one
echo two   # a comment
```

```json
{"a": 1}
```

```
output of something
```

```sh
echo 'three
four'
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(doc_commands, "ROOT", tmp_path)
    path = tmp_path / "PAGE.md"
    path.write_text(PAGE)
    return path


def test_blocks_have_their_language_and_their_line():
    assert [(block.language, block.line) for block in blocks(PAGE)] == [
        ("sh", 4),
        ("json", 9),
        ("", 13),
        ("sh", 17),
    ]


def test_commands_are_the_blocks_of_a_language_and_know_the_answer_that_follows(page):
    first, second = commands(page)
    assert (str(first), first.answer) == ("PAGE.md:4", {"a": 1})
    assert (second.text, second.answer) == ("echo 'three\nfour'\n", None)
    assert len(commands(page, ("sh", ""))) == 3


def test_a_block_is_run_as_one_script_and_what_it_prints_is_given(page):
    first, second = commands(page)
    assert run(first) == "one\ntwo\n"
    assert run(second, replaced={"three": "3"}) == "3\nfour\n"


@pytest.mark.parametrize("text", ["false\ntrue", "false | true", "echo $UNSET_VARIABLE"])
def test_a_block_of_which_a_part_fails_has_failed(text):
    with pytest.raises(AssertionError, match="page:1"):
        run(Command("page", 1, text))


def test_variables_are_given_and_python_is_the_one_of_the_tests():
    assert run(Command("page", 1, "echo $KEY"), env={"KEY": "k"}) == "k\n"
    assert run(Command("page", 1, "python -c 'import pytest'")) == ""


@pytest.mark.parametrize(
    ("text", "is_service"),
    [
        ("manyhands api", True),
        ("A=1 B=2 manyhands worker   # a comment\n", True),
        ("manyhands api key ci read", False),
        ("manyhands worker size --rate 1", False),
        ("curl http://localhost:3000", False),
    ],
)
def test_a_command_that_does_not_end_is_known(text, is_service):
    assert Command("page", 1, text).is_service == is_service


def test_a_service_is_started_and_ends_by_its_signal(tmp_path):
    command = Command("page", 1, "VALUE=1 python -m http.server 0 --bind 127.0.0.1")
    process = doc_commands.start(command, log=tmp_path / "log")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM


def test_answers_are_compared_by_members_and_types():
    assert shape({"a": [1, 2], "b": "x"}) == shape({"a": [3.5], "b": "y"})
    assert shape({"a": 1}) != shape({"a": "1"})
    assert shape({"a": 1}) != shape({"a": 1, "b": 2})
    assert shape(True) != shape(1)


def test_a_page_of_this_checkout_has_commands_with_answers():
    found = commands(ROOT / "docs" / "API.md")
    assert any(command.answer for command in found)
    assert [command.is_service for command in found].count(True) == 1
