"""Refuses query parameters that a route does not have, which would be ignored without a word."""

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from manyhands.api.problems import unprocessable

# Of a name that nobody knows, this much is repeated.
MAX_SHOWN = 80


async def refuse_unknown_query(request: Request) -> None:
    """A dependency of every route. Raises Problem. Not for a thread, so it is a coroutine."""
    route = request.scope["route"]
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = _names(route.dependant)
    for name in request.query_params:
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            raise unprocessable(
                f"unknown query parameter {name[:MAX_SHOWN]!r}: this route has {has}",
                field=f"query.{name[:MAX_SHOWN]}",
            )


def _names(dependant: Dependant) -> set[str]:
    """Its own, and those of what it depends on."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*map(_names, dependant.dependencies))
