"""Where transactions end."""

from dataclasses import replace

import pytest

from ringfence.fencing.errors import Invalid
from ringfence.fencing.task.boundaries import Boundaries, Boundary
from tests.support.task_specs import SPEC


def test_poll_is_the_default_and_every_batch_ends_a_transaction() -> None:
    boundaries = Boundaries.of({}, 60_000)
    assert boundaries.kind is Boundary.POLL
    assert boundaries.due(now=5.0, last_commit=5.0)


def test_an_interval_ends_a_transaction_when_its_time_has_come() -> None:
    boundaries = Boundaries.of({"transaction.boundary": "Interval", "transaction.boundary.interval.ms": "500"}, 60_000)
    assert not boundaries.due(now=10.49, last_commit=10.0)
    assert boundaries.due(now=10.5, last_commit=10.0)


def test_blanks_around_a_setting_are_left_out() -> None:
    """As where a connector is checked: what passes there must not fail here."""
    given = {"transaction.boundary": " Interval ", "transaction.boundary.interval.ms": " 500\n"}
    assert Boundaries.of(given, 60_000) == Boundaries(Boundary.INTERVAL, 0.5)
    assert Boundaries.of({"transaction.boundary": "  "}, 60_000).kind is Boundary.POLL


def test_the_tasks_configuration_names_what_the_connector_needs() -> None:
    """The connector's own setting comes first; without either it is poll, as for tasks of an earlier version."""
    needed = {"transaction.boundary": "connector"}
    for own, told, kind in (
        ({}, needed, Boundary.CONNECTOR),
        ({"transaction.boundary": " "}, needed, Boundary.CONNECTOR),
        ({"transaction.boundary": "poll"}, needed, Boundary.POLL),
        ({}, {}, Boundary.POLL),
    ):
        assert replace(SPEC, connector_config=own, task_config=told).boundaries.kind is kind


def test_a_connector_that_defines_transactions_is_never_committed_unasked() -> None:
    boundaries = Boundaries.of({"transaction.boundary": "Connector"}, 1)
    assert boundaries.kind is Boundary.CONNECTOR
    assert not boundaries.due(now=1e9, last_commit=0.0)
    assert boundaries.transaction_timeout_ms(60_000) == 60_000


def test_the_workers_flush_interval_is_the_default_interval() -> None:
    assert Boundaries.of({"transaction.boundary": "interval"}, 2_000).interval_s == 2.0


def test_a_transaction_may_last_at_least_three_intervals() -> None:
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "30000"}
    assert Boundaries.of(interval, 1).transaction_timeout_ms(60_000) == 90_000
    assert Boundaries.of(interval, 1).transaction_timeout_ms(100_000) == 100_000
    assert Boundaries.of({}, 1).transaction_timeout_ms(60_000) == 60_000


@pytest.mark.parametrize(
    "config",
    [
        {"transaction.boundary": "sometimes"},
        {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "0"},
        {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "-5"},
        {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "often"},
        {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "²"},
    ],
)
def test_what_is_no_boundary_is_refused_with_its_name(config: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=r"transaction\.boundary"):
        Boundaries.of(config, 60_000)
