"""`transaction.boundary`: `connector` is accepted from a connector that can define transactions, from no other, and is
the default of one that must.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from ringfence.connectors.api import ConnectorTransactionBoundaries
from ringfence.connectors.builtin.dlt_source.connector import DltSourceConnector
from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
from ringfence.connectors.builtin.verifiable.connector import VerifiableSourceConnector
from ringfence.connectors.config_providers import ConfigProviders
from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, with_boundary
from ringfence.engine.plugins.instances import InstanceRunner
from ringfence.engine.plugins.validation import common_keys, support_of, validate


class BoundedConnector(VerifiableSourceConnector):
    aliases = ()

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        if config["throughput"] == "13":
            raise ValueError("not on this day")
        return ConnectorTransactionBoundaries.SUPPORTED


class WholeConnector(BoundedConnector):
    """It must define its transactions, except where its throughput is 1. It refuses any other boundary."""

    def must_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        return config.get("throughput") != "1"

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        wrong = self.must_define_transaction_boundaries(config) and config.get(TRANSACTION_BOUNDARY) != "connector"
        return {TRANSACTION_BOUNDARY: ["wrong"]} if wrong else {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"number": "0"}]


def registry_of(name: str) -> PluginRegistry:
    entries = {
        "Bounded": f"{__name__}:BoundedConnector",
        "Plain": f"{VerifiableSourceConnector.__module__}:VerifiableSourceConnector",
        "Whole": f"{__name__}:WholeConnector",
    }
    return PluginRegistry.discover([EntryPoint(name, entries[name], "ringfence.connectors")])


def config_of(name: str, throughput: str, **more: str) -> dict[str, str]:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return {"name": "c", "connector.class": name, "topic": "data", "throughput": throughput, **settings}


def values_of(name: str, throughput: str, **more: str) -> dict[str, Any]:
    answer: Any = validate(registry_of(name), name, config_of(name, throughput, **more), exactly_once=True)
    return {entry["value"]["name"]: entry for entry in answer["configs"]}


def refusals(name: str, throughput: str) -> list[str]:
    values = values_of(name, throughput, transaction_boundary="connector")
    assert {key for key, entry in values.items() if entry["value"]["errors"]} <= {TRANSACTION_BOUNDARY}
    return [str(error) for entry in values.values() for error in entry["value"]["errors"]]


def test_a_connector_that_says_that_it_can_is_accepted() -> None:
    assert refusals("Bounded", "1") == []


@pytest.mark.parametrize(
    ("name", "throughput", "why"), [("Plain", "1", "does not support"), ("Bounded", "13", "asked")]
)
def test_any_other_is_refused(name: str, throughput: str, why: str) -> None:
    (text,) = refusals(name, throughput)
    assert why in text


@pytest.mark.parametrize(("throughput", "boundary"), [("2", "connector"), ("1", "poll")])
def test_a_connector_that_must_define_transactions_needs_no_setting(throughput: str, boundary: str) -> None:
    values = values_of("Whole", throughput, exactly_once_support="required")
    assert [error for entry in values.values() for error in entry["value"]["errors"]] == []
    entry = values[TRANSACTION_BOUNDARY]
    assert entry["value"]["value"] == entry["definition"]["default_value"] == boundary


def test_an_explicit_boundary_is_kept() -> None:
    entry = values_of("Whole", "2", transaction_boundary="poll")[TRANSACTION_BOUNDARY]
    assert entry["value"]["value"] == "poll"
    assert entry["value"]["errors"] == ["wrong"]
    entry = values_of("Plain", "2")[TRANSACTION_BOUNDARY]
    assert entry["value"]["value"] == entry["definition"]["default_value"] == "poll"


def test_the_tasks_are_told() -> None:
    """In their own configuration: that of the connector stays as it was given."""
    registry = registry_of("Whole")
    chosen = {}
    for throughput, given in (("2", {}), ("1", {}), ("2", {"transaction_boundary": "connector"})):
        runner = InstanceRunner(registry, lambda _event: None)
        runner.start("c", ConfigProviders().resolve(config_of("Whole", throughput, **given)), [], 1, None)
        (task,) = runner.task_configs("c", 1, None)
        chosen[throughput, *given] = task.get(TRANSACTION_BOUNDARY)
        runner.stop("c", 2)
    assert chosen == {("2",): "connector", ("1",): None, ("2", "transaction_boundary"): None}


def test_preflight_knows_the_effective_boundary() -> None:
    (whole,) = registry_of("Whole").plugins
    assert support_of(whole, config_of("Whole", "2"))[1:] == (True, "connector")
    assert support_of(whole, config_of("Whole", "1"))[1:] == (True, "poll")
    assert support_of(whole, config_of("Whole", "2", transaction_boundary="Interval"))[1:] == (True, "interval")


def test_the_settings_of_a_class_show_its_default() -> None:
    for name, boundary in (("Whole", "connector"), ("Bounded", "poll")):
        assert common_keys(registry_of(name).plugins).keys[TRANSACTION_BOUNDARY].default == boundary


@pytest.mark.parametrize(
    ("connector", "config", "boundary"),
    [
        (PostgresSourceConnector(), {}, "connector"),
        (PostgresSourceConnector(), {"source.transactions": " "}, "connector"),
        (PostgresSourceConnector(), {"source.transactions": "split"}, None),
        (PostgresSourceConnector(), {TRANSACTION_BOUNDARY: "poll"}, "poll"),
        (DltSourceConnector(), {}, "connector"),
        (DltSourceConnector(), {TRANSACTION_BOUNDARY: ""}, "connector"),
        (DltSourceConnector(), {"checkpoint": "page"}, None),
        (DltSourceConnector(), {TRANSACTION_BOUNDARY: "Interval"}, "Interval"),
    ],
)
def test_what_the_connectors_need(
    connector: PostgresSourceConnector | DltSourceConnector, config: dict[str, str], boundary: str | None
) -> None:
    assert with_boundary(connector, config).get(TRANSACTION_BOUNDARY) == boundary
