"""Which function gets a page: the `@page` decorator. Pure."""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from manyhands.shared.crawl.globs import Glob, UnusablePattern
from manyhands.shared.errors import ConfigError
from manyhands.worker.page_functions.page import Page

Function = TypeVar("Function", bound=Callable[[Page], Coroutine[Any, Any, None] | None])

_SCHEMES = ("https", "http")


@dataclass(slots=True, frozen=True)
class PageFunction:
    module: str
    name: str
    call: Callable[[Page], Coroutine[Any, Any, None] | None]
    is_async: bool
    patterns: tuple[Glob, ...]

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def gets(self, url: str) -> bool:
        return any(pattern.fits(url) for pattern in self.patterns)


@dataclass(slots=True)
class PageFunctions:
    """State: the functions of this process, in the order in which they were loaded."""

    functions: list[PageFunction] = field(default_factory=list)

    def page(self, *patterns: str) -> Callable[[Function], Function]:
        """Register a function, async or not, for the pages of a crawl whose URLs match one of these
        patterns: `example.org/*` for both schemes, `https://*.example.org/shop/*`, or `*`. Of
        several that match, the first gets the page."""
        globs = tuple(glob for pattern in patterns for glob in _globs(pattern))
        if not globs:
            raise ConfigError('@page needs a pattern, such as "example.org/*" or "*"')

        def register(function: Function) -> Function:
            name = getattr(function, "__qualname__", type(function).__name__)
            module = str(getattr(function, "__module__", ""))
            is_async = inspect.iscoroutinefunction(function)
            self.functions.append(PageFunction(module, name, function, is_async, globs))
            return function

        return register

    def of_module(self, module: str) -> list[PageFunction]:
        """With those of the modules inside it, if it is a package."""
        inside = f"{module}."
        return [one for one in self.functions if f"{one.module}.".startswith(inside)]


def first_for(functions: list[PageFunction], url: str) -> PageFunction | None:
    return next((function for function in functions if function.gets(url)), None)


def _globs(pattern: str) -> list[Glob]:
    texts = [pattern] if "://" in pattern else [f"{scheme}://{pattern}" for scheme in _SCHEMES]
    try:
        return [Glob(text) for text in texts]
    except UnusablePattern as error:
        raise ConfigError(f"@page({pattern!r}): {error.why}") from None


PAGE_FUNCTIONS = PageFunctions()
page = PAGE_FUNCTIONS.page
