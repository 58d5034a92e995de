"""A connector's class is called by its plugin's title, as in the catalog."""

import json

import pytest
from django.test import Client

from ringfence.history.models import WorkerPlugins
from ringfence.projection.models import Worker
from ringfence.web.templatetags.ringfence import find_title, installed_titles
from tests.support.leader import FakeLeader
from tests.support.topics import connector

ROW = {"incarnation": "i-1", "time_ms": 1}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    installed_titles.forget()


def test_a_title_comes_from_the_catalog_of_a_live_worker(client: Client, leader: FakeLeader) -> None:
    titles = {"acme.CrmSource": "Customers of Acme", "CrmSource": "Customers of Acme"}
    WorkerPlugins.objects.create(worker="w-1", titles=json.dumps(titles), **ROW)
    assert find_title("acme.CrmSource") == "CrmSource", "that worker is gone"
    Worker.objects.create(worker="w-1", incarnation="i-1", slots=1, since_ms=1)
    assert find_title("acme.CrmSource") == "CrmSource", "titles are not read for each page"
    installed_titles.forget()
    assert find_title(" CrmSource ") == "Customers of Acme"
    model = connector("crm", topic="t")
    model.config["connector.class"] = "acme.CrmSource"  # type: ignore[index]
    leader.config.config(model)
    leader.project()
    for address in ("/ui/connectors", "/ui/connectors/crm"):
        page = client.get(address).content.decode()
        assert "Customers of Acme" in page
        assert 'title="acme.CrmSource"' in page, "the class is there, too"


def test_known_classes_have_a_title_without_a_worker(client: Client, leader: FakeLeader) -> None:
    assert find_title("io.debezium.connector.mysql.MySqlConnector") == "MySQL changes, by Debezium"
    assert find_title("org.acme.Unknown") == "Unknown"
    assert find_title("") == ""
