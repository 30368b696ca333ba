"""OpenAPI of request bodies that routes read themselves: FastAPI does not see them."""

from typing import Any

from pydantic import BaseModel

REF = "#/components/schemas/{model}"


def ref(model: str) -> dict[str, str]:
    return {"$ref": REF.format(model=model)}


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """For `openapi_extra`. The body is JSON whatever its content type says; `openapi.complete` adds
    the model's schema."""
    content = {"application/json": {"schema": ref(model.__name__)}}
    return {"requestBody": {"required": True, "content": content}}


def lines(example_line: str) -> dict[str, Any]:
    """The contents of a body of lines: URLs as plain text, or NDJSON such as the example."""
    return {
        "text/plain": _text("https://example.com/\nhttps://example.org/\n"),
        "application/x-ndjson": _text(f"{example_line}\n"),
    }


def _text(example: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "example": example}
