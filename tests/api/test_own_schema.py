"""`/api/v1/` does what its own OpenAPI document says: Schemathesis makes requests of it, good ones and bad ones."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from tests.support.leader import FakeLeader

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.allow_header_conformance,
]


@pytest.fixture(scope="module")
def document() -> Any:
    from django.core.wsgi import get_wsgi_application

    application = get_wsgi_application()

    def on_loopback(environ: dict[str, Any], start_response: Any) -> Any:
        # Werkzeug's client says nothing of where it is; without a login only loopback may ask.
        return application({"REMOTE_ADDR": "127.0.0.1", **environ, "HTTP_HOST": "localhost"}, start_response)

    return schemathesis.openapi.from_wsgi("/api/schema", on_loopback)


def operations(document: Any) -> Iterator[Any]:
    for found in document.get_all_operations():
        yield found.ok()


def cases(operation: Any) -> st.SearchStrategy[Any]:
    """Good and bad requests; half of them to a connector, a generation or a version that is there."""
    there = {"name": "team-a", "number": 1, "partition": 0, "offset": 0}
    known = {each.name: there[each.name] for each in operation.path_parameters}
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    anywhere = [operation.as_strategy(mode) for mode in modes]
    here = [operation.as_strategy(mode, path_parameters=known) for mode in modes] if known else []
    return st.one_of(*here, *anywhere)


def differences(document: Any, examples: int) -> list[str]:
    """For each operation that does not do what the document says, what it does."""
    found = []
    for operation in operations(document):

        @seed(0)
        @settings(
            max_examples=examples,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(cases(operation))
        def conforms(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        try:
            conforms()
        except FailureGroup as error:
            found.append(f"{operation.label}: {error}")
    return found


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(8, marks=[pytest.mark.thorough, pytest.mark.timeout(600)]),
        pytest.param(150, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
def test_every_operation_does_what_the_document_says(document: Any, two_connectors: FakeLeader, examples: int) -> None:
    found = differences(document, examples)
    assert not found, "\n\n".join(found)
