"""Handlers: what a signature promises about a job's args."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from manyhands.shared.errors import ConfigError
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import BadArguments, Registry, make_handler
from manyhands.worker.testing import make_delivery


@pytest.fixture
def context() -> JobContext:
    return JobContext(make_delivery(reserved_after=0.0), None)


def arguments(
    function: Callable[..., Any], args: Sequence[Any], context: JobContext | None = None
) -> list[Any]:
    return make_handler("job", function).arguments(list(args), context)


def test_typed_args_are_checked_and_converted():
    async def handler(number: int, day: date, names: list[str]): ...

    assert arguments(handler, ["7", "2026-01-02", ["a"]]) == [7, date(2026, 1, 2), ["a"]]


def test_models_are_built_from_maps():
    class Page(BaseModel):
        url: str
        depth: int = 0

    def handler(page: Page): ...

    assert arguments(handler, [{"url": "u"}]) == [Page(url="u", depth=0)]


def test_args_without_a_type_are_passed_as_they_are():
    def handler(first, second): ...

    value = {"a": [1]}
    assert arguments(handler, [value, None]) == [value, None]


def test_defaults_fill_what_is_not_given():
    def handler(a: int, b: int = 5, c: str = "x"): ...

    assert arguments(handler, [1]) == [1, 5, "x"]
    assert arguments(handler, [1, 2]) == [1, 2, "x"]


def test_a_default_is_not_shared_between_jobs():
    def handler(found: list[int] = []): ...  # noqa: B006 - this is what is tested

    arguments(handler, [])[0].append(1)
    assert arguments(handler, []) == [[]]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([1, 2, 3], "takes 2 arguments, 3 were given"),
        ([1], "b: Field required"),
        ([], "a: Field required; b: Field required"),
        (["x", 2], "a: Input should be a valid integer"),
        ([1, None], "b: "),
    ],
)
def test_args_that_do_not_fit_are_said_in_one_line(args, says):
    def handler(a: int, b: int): ...

    with pytest.raises(BadArguments, match=says) as refused:
        arguments(handler, args)
    assert str(refused.value).startswith("job")
    assert "\n" not in str(refused.value)


def test_a_handler_without_parameters_takes_no_args():
    def handler(): ...

    assert arguments(handler, []) == []
    with pytest.raises(BadArguments):
        arguments(handler, [1])


def test_the_context_may_stand_anywhere(context):
    def first(ctx: JobContext, a: int, b: int = 2): ...
    def middle(a: int, ctx: JobContext, b: int = 2): ...
    def last(a: int, b: int, ctx: JobContext): ...
    def only(ctx: JobContext): ...

    assert arguments(first, [1], context) == [context, 1, 2]
    assert arguments(middle, [1], context) == [1, context, 2]
    assert arguments(last, [1, 2], context) == [1, 2, context]
    assert arguments(only, [], context) == [context]


def test_only_a_handler_that_names_the_context_wants_it():
    def with_context(ctx: JobContext): ...
    def without(ctx): ...

    assert make_handler("job", with_context).wants_context
    assert not make_handler("job", without).wants_context


def test_further_args_go_to_a_star(context):
    def handler(a: int, *rest): ...
    def everything(*args): ...
    def with_context(ctx: JobContext, a: int, *rest): ...

    assert arguments(handler, ["1", "2", None]) == [1, "2", None]
    assert arguments(everything, [1, "a"]) == [1, "a"]
    assert arguments(everything, []) == []
    assert arguments(with_context, ["1", 2], context) == [context, 1, 2]
    with pytest.raises(BadArguments):
        arguments(handler, [])


@pytest.mark.parametrize("kind", ["keyword-only", "map of keywords", "context by keyword"])
def test_what_a_list_of_args_cannot_fill_is_refused_when_it_is_registered(kind):
    def keyword_only(a: int, *, b: int): ...
    def keywords(a: int, **more): ...
    def context_by_keyword(a: int, *, ctx: JobContext): ...

    functions: dict[str, Callable[..., Any]] = {
        "keyword-only": keyword_only,
        "map of keywords": keywords,
        "context by keyword": context_by_keyword,
    }
    with pytest.raises(ConfigError, match="job"):
        make_handler("job", functions[kind])


@pytest.mark.parametrize(
    "name", ["_hidden", "json", "copy", "schema", "model_name", "model_fields"]
)
def test_a_parameter_may_have_any_name(name):
    scope: dict[str, Any] = {}
    exec(f"def handler({name}: int): ...", scope)
    assert arguments(scope["handler"], ["7"]) == [7]


def test_async_and_sync_functions_are_told_apart():
    async def coroutine(): ...
    def plain(): ...

    assert make_handler("job", coroutine).is_async
    assert not make_handler("job", plain).is_async


def test_a_function_is_registered_and_given_back():
    registry = Registry()

    @registry.job("add")
    async def add(a: int, b: int) -> int:
        return a + b

    handler = registry.get("add")
    assert handler is not None
    assert handler.function is add
    assert registry.get("other") is None


def test_two_handlers_for_one_type_are_refused():
    registry = Registry()

    @registry.job("add")
    def first(): ...

    with pytest.raises(ConfigError, match="add"):

        @registry.job("add")
        def second(): ...

    handler = registry.get("add")
    assert handler is not None
    assert handler.function is first


def test_a_type_is_consumed_from_the_queue_that_its_handler_names():
    registry = Registry()
    registry.job("thumbnail", queue="images")(lambda: None)
    registry.job("greet")(lambda: None)
    registry.job("fetch")(lambda: None)
    registry.job("parse", queue="pages")(lambda: None)
    assert registry.queues_by_type() == {
        "thumbnail": "images",
        "greet": "default",
        # Of ours, so where the API puts them.
        "fetch": "fetch.*",
        "parse": "pages",
    }


@pytest.mark.parametrize("queue", ["", "a b", "a,b", "a:3", "fetch.*"])
def test_a_queue_that_is_not_one_name_is_refused_when_it_is_registered(queue):
    with pytest.raises(ConfigError, match=r"thumbnail.*queue name"):
        Registry().job("thumbnail", queue=queue)(lambda: None)


def test_a_handler_knows_the_first_version_unless_it_says_another():
    registry = Registry()
    registry.job("old")(lambda: None)
    registry.job("new", version=2)(lambda: None)
    assert [handler.version for handler in registry.handlers.values()] == [1, 2]
    with pytest.raises(ConfigError, match="version 0"):
        registry.job("wrong", version=0)(lambda: None)
