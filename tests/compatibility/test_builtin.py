"""Our own connectors under the compatibility suite that we offer others, and the reports behind their badges."""

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.connectors import compatibility
from ringfence.connectors.compatibility import read_report, write_report
from ringfence.testing import CHECKS, Scenario
from ringfence.testing.author_commands import report_on, run_checks
from tests.compatibility.scenarios import SCENARIOS, PostgresScenario, ShareGroupScenario
from tests.guarantees.shares import FLOORS
from tests.support.broker import Broker, running_kafka
from tests.support.postgres import LOGICAL, new_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[None]:
    with new_postgres(LOGICAL) as server:
        PostgresScenario.server = server
        yield


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of a broker whose locks may expire soon."""
    with running_kafka(tmp_path_factory.mktemp("queues"), **FLOORS) as made:
        yield made.bootstrap


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_our_connectors_pass(scenario: type[Scenario], broker: Broker, request: pytest.FixtureRequest) -> None:
    """RINGFENCE_WRITE_REPORTS=1 keeps the reports beside the connectors' code, as `make reports` does."""
    if scenario is PostgresScenario:
        request.getfixturevalue("postgres")
    bootstrap = request.getfixturevalue("queues") if scenario is ShareGroupScenario else broker.bootstrap
    results = [result for _, result in run_checks(scenario, bootstrap)]
    assert [result for result in results if result.result == "failed"] == []
    assert len(results) == len(CHECKS)
    if os.environ.get("RINGFENCE_WRITE_REPORTS"):
        write_report(scenario.connector, report_on(scenario, results))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_badge_is_about_the_code_as_it_is(scenario: type[Scenario]) -> None:
    report = read_report(scenario.connector)
    assert report is not None, "the code has changed since: run `make reports`"
    assert report.passed


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_report_is_found_while_the_code_stays(scenario: type[Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(inspect.getfile(scenario.connector)).parent
    (kept,) = json.loads((folder / compatibility.FILE).read_text()).values()
    monkeypatch.setattr(compatibility, "source_digest", lambda _cls: kept["digest"])
    report = read_report(scenario.connector)
    assert report is not None
    assert report.passed


def test_what_is_shipped_is_no_report_about_other_code() -> None:
    """A report that has become old gives no badge; it is never one that failed."""
    for scenario in SCENARIOS:
        report = read_report(scenario.connector)
        assert report is None or report.passed
