"""Page functions with all manners, for tests of crawls."""

import asyncio

from manyhands import Page, Retry, page


@page("*/start/*")
async def start(page: Page) -> None:
    await asyncio.sleep(0)
    page.follow("/noted/", note={"from": page.depth})
    page.follow(["mailto:me@example.org", "https://elsewhere.example/"])
    page.drop()


@page("*/noted/*")
def noted(page: Page) -> None:
    page.emit({"note": page.note, "type": page.headers["content-type"]}, kind="noted")


@page("*/raises/*")
def raises(page: Page) -> None:
    page.emit("half of it")
    raise KeyError(page.url)


@page("*/loops/*")
def loops(page: Page) -> None:
    while True:
        try:
            page.css("a")
        except Exception:
            continue


@page("*/again/*")
def again(page: Page) -> None:
    if not page.attempts:
        raise Retry(after_s=0.1, reason="not yet")
    page.emit({"attempts": page.attempts}, kind="again")


@page("*/ends-its-process/*")
def ends_its_process(page: Page) -> None:
    # In C, with the interpreter's lock: nothing in Python can end it.
    page.emit(sum(range(10**15)))
