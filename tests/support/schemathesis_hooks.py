"""What schemathesis cannot know of the API. Loaded by it by name (SCHEMATHESIS_HOOKS)."""

from typing import Any

import schemathesis

# Text, line by line.
schemathesis.serializer.alias("application/x-ndjson", "text/plain")


@schemathesis.hook
def filter_query(_: Any, query: Any) -> bool:
    """A rule between two parameters: OpenAPI has no words for it."""
    return not (query and "at" in query and "in" in query)
