"""`transaction.boundary=connector` in validation: accepted from a connector that says that it can, from no other."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint

import pytest

from ringfence.connectors.api import ConnectorTransactionBoundaries
from ringfence.connectors.builtin.verifiable.connector import VerifiableSourceConnector
from ringfence.connectors.plugins import PluginRegistry
from ringfence.engine.plugins.validation import validate


class BoundedConnector(VerifiableSourceConnector):
    aliases = ()

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        if config["throughput"] == "13":
            raise ValueError("not on this day")
        return ConnectorTransactionBoundaries.SUPPORTED


def refusals(name: str, throughput: str) -> list[str]:
    entries = {
        "Bounded": f"{__name__}:BoundedConnector",
        "Plain": f"{VerifiableSourceConnector.__module__}:VerifiableSourceConnector",
    }
    registry = PluginRegistry.discover([EntryPoint(name, entries[name], "ringfence.connectors")])
    config = {"name": "c", "connector.class": name, "topic": "data", "throughput": throughput}
    found = validate(registry, name, {**config, "transaction.boundary": "connector"}, exactly_once=True)
    values = [entry["value"] for entry in found["configs"]]  # type: ignore[attr-defined]
    assert {value["name"] for value in values if value["errors"]} <= {"transaction.boundary"}
    return [str(error) for value in values for error in value["errors"]]


def test_a_connector_that_says_that_it_can_is_accepted() -> None:
    assert refusals("Bounded", "1") == []


@pytest.mark.parametrize(
    ("name", "throughput", "why"), [("Plain", "1", "does not support"), ("Bounded", "13", "asked")]
)
def test_any_other_is_refused(name: str, throughput: str, why: str) -> None:
    (text,) = refusals(name, throughput)
    assert why in text
