"""The OpenAPI document: complete, and without contradictions."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from manyhands.api.app import Service
from manyhands.api.intake import Intake
from manyhands.api.openapi import ANSWERS, ERRORS, OPTIONS, OPTIONS_OF_FETCH
from manyhands.api.problems import Problem
from manyhands.shared.jobs import utc_now
from manyhands.shared.jobtypes import JOB_TYPES
from manyhands.shared.settings import (
    AllowSettings,
    ApiSettings,
    BatchSettings,
    CrawlSettings,
    FaktorySettings,
    ResultsSettings,
)


def document(**settings: Any) -> dict[str, Any]:
    service = Service(
        ApiSettings(**settings),
        BatchSettings(),
        FaktorySettings(),
        CrawlSettings(),
        AllowSettings(),
        ResultsSettings(),
        run_directory=Path(),
    )
    schema: dict[str, Any] = service._app.openapi()
    return schema


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return document()


def operations(schema: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (path, method): operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_is_described(schema):
    assert set(operations(schema)) == set(ANSWERS) - {("/jobs/{name}", "post")}


def test_every_job_type_has_a_path_with_its_own_arguments(schema):
    for kind in JOB_TYPES.values():
        operation = operations(schema)[f"/jobs/{kind.name}", "post"]
        content = operation["requestBody"]["content"]["application/json"]
        assert content["schema"]["$ref"].endswith(f"/{kind.arguments.__name__}")
        options = OPTIONS_OF_FETCH if kind.name == "fetch" else OPTIONS
        assert [parameter["name"] for parameter in operation["parameters"]] == list(options)


def job_item(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of one job of a list, with what it refers to."""
    return {"$ref": "#/components/schemas/JobItem", "components": schema["components"]}


def is_described(schema: dict[str, Any], job: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(job, job_item(schema))
    except jsonschema.ValidationError:
        return False
    return True


def test_types_without_a_model_are_described_where_they_are_allowed(schema):
    allowing = document(allow_unknown_types=True)
    assert ("/jobs/{name}", "post") in operations(allowing)
    job = {"jobtype": "resize", "args": {"width": 1}}
    assert not is_described(schema, job)
    assert is_described(allowing, job)


@pytest.mark.parametrize(
    ("job", "is_taken"),
    [
        ({"jobtype": "add", "args": {"a": 1, "b": 2}}, True),
        ({"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": "q", "retry": 0, "in": 1.5}, True),
        ({"jobtype": "add", "args": {"a": 1, "b": 2}, "at": None, "in": 5}, True),
        ({"jobtype": "fetch", "args": {"url": "https://example.com/"}}, True),
        ({"jobtype": "fetch", "args": {"url": "http://a.example/"}, "unique_for_s": 1.5}, True),
        ({"jobtype": "fetch", "args": {"url": "http://a.example/"}, "unique_for_s": None}, True),
        ({"jobtype": "fetch", "args": {"url": "http://a.example/"}, "unique_for_s": 0.5}, False),
        ({"jobtype": "add", "args": {"a": 1, "b": 2}, "unique_for_s": 60}, False),
        ({"jobtype": "add", "args": {"a": 1}}, False),
        ({"jobtype": "add", "args": {"url": "https://example.com/"}}, False),
        ({"jobtype": "sub", "args": {"a": 1, "b": 2}}, False),
        ({"jobtype": "add"}, False),
        ({"jobtype": "add", "args": {"a": 1, "b": 2}, "in": -1}, False),
        ({"jobtype": "add", "args": {"a": 1, "b": 2}, "retry": 1001}, False),
        ({"jobtype": "add", "args": {"a": 1, "b": 2}, "jid": "x"}, False),
        (
            {"jobtype": "add", "args": {"a": 1, "b": 2}, "at": "2030-01-31T12:00:00Z", "in": 5},
            False,
        ),
    ],
)
def test_what_the_document_says_of_a_job_is_what_the_service_does(schema, job, is_taken):
    intake = Intake(shards=64, allows_unknown=False, keeps_big_integers=lambda: False)
    try:
        intake.line(orjson.dumps(job), utc_now())
        was_taken = True
    except Problem:
        was_taken = False
    assert (is_described(schema, job), was_taken) == (is_taken, is_taken)


def test_no_two_paths_are_the_same_template(schema):
    templates = [re.sub(r"\{\w+\}", "{}", path) for path in schema["paths"]]
    assert len(templates) == len(set(templates))


def test_operation_ids_are_unique(schema):
    ids = [operation["operationId"] for operation in operations(schema).values()]
    assert len(ids) == len(set(ids))


def test_every_answer_that_is_no_success_is_a_problem_document(schema):
    for operation in operations(schema).values():
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"]
                assert answer["description"] == ERRORS[int(status)]


def test_every_reference_leads_somewhere(schema):
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [ref for item in value.values() for ref in references(item)]
        if isinstance(value, list):
            return [ref for item in value for ref in references(item)]
        return []

    found = references(schema)
    assert found
    for reference in found:
        assert reference.removeprefix("#/components/schemas/") in schema["components"]["schemas"]


def test_no_schema_is_left_over_from_the_framework(schema):
    assert not {"HTTPValidationError", "ValidationError"} & set(schema["components"]["schemas"])


def test_a_key_is_wanted_where_there_are_keys(schema):
    assert schema["security"] == []
    locked = document(keys=f"ops:read:{'0' * 64}")
    assert locked["security"] == [{"key": []}, {"bearer": []}]
    assert {
        path
        for (path, _), operation in operations(locked).items()
        if operation.get("security") == []
    } == {"/healthz", "/readyz", "/version"}


def test_the_example_of_a_job_fits_its_own_schema(schema):
    assert is_described(schema, schema["components"]["schemas"]["JobItem"]["example"])


def test_the_schema_of_problems_fits_problems(schema):
    problem = schema["components"]["schemas"]["Problem"]
    jsonschema.validate(
        {"type": "about:blank", "title": "x", "status": 503, "detail": "y", "outcome": "unknown"},
        problem,
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"detail": "y"}, problem)
    assert Problem(503, "x").status in ERRORS
