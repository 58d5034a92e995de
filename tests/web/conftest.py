"""An empty database, a stand-in leader and a client for every test of the pages."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from ringfence.engine.plugins.calls import ExamineSource, PluginRuntime
from ringfence.engine.plugins.validation import validate
from ringfence.requests.request import Refusal
from tests.support.database import empty_tables, migrated
from tests.support.leader import FakeLeader, leader

__all__ = ["empty_tables", "leader", "migrated"]


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"}, raise_request_exception=False)


@pytest.fixture
def rich(leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    """The real validation, of a plugin with groups, dependents and a recommender."""

    from tests.support.new_connector_forms import KINDS, REGISTRY, RichConnector

    def real(plugin: str, config: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        if plugin not in KINDS:
            raise Refusal(404, f"Unknown plugin {plugin}")
        return validate(REGISTRY, plugin, config, exactly_once=True)

    def examine(config: Mapping[str, str], java: bool) -> dict[str, Any] | None:
        leader.asked.append(("examine", config["name"], {"config": dict(config)}))
        return ExamineSource(config).answer(PluginRuntime(REGISTRY, lambda _: None))

    monkeypatch.setattr(leader, "validate", real)
    monkeypatch.setattr(leader, "examine", examine, raising=False)
    plugins = [
        {"class": name, "type": "source", "names": [name], "catalog": cls.catalog.as_json() if cls.catalog else None}
        for name, cls in KINDS.items()
    ]
    monkeypatch.setattr(leader, "list_plugins", lambda: plugins)
    monkeypatch.setattr(leader, "config_keys", lambda plugin, **_: RichConnector.config_def().infos())
    return leader
