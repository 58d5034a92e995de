"""Links from settings, errors and checks into the documents: each leads to a section, and whatever can have one has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from ringfence.alerts.root_causes import HINTS, TEXT_HINTS
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.sdk.features import all_features
from ringfence.fencing.topics.status import State
from ringfence.http import section_links
from ringfence.http.section_links import Reference, explain_check, explain_setting
from ringfence.projection.models import ClusterInfo
from ringfence.web.handbook.documents import documents
from ringfence.web.lists.overview import STARTS
from tests.support.catalog import BUILT_IN
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
_TABLES = (section_links.SETTINGS, section_links.CHECKS, *map(section_links.find_sections, all_features()))


def _all() -> Iterator[Reference]:
    yield from (value for value in vars(section_links).values() if isinstance(value, Reference))
    yield from (reference for table in _TABLES for _, reference in table)
    yield from (hint.more for _, hint in (*HINTS, *TEXT_HINTS))
    yield from (start.more for start in STARTS)
    yield from filter(None, (explain_setting("any", cls.__name__) for cls in BUILT_IN))


def test_every_reference_leads_to_a_section() -> None:
    known = {section.address for document in documents().values() for section in document.sections}
    assert [each.address for each in _all() if each.address not in known] == []
    linked = {
        link for path in TEMPLATES.rglob("*.html") for link in re.findall(r'href="(/ui/docs/[^"{]+)"', path.read_text())
    }
    assert len(linked) > 5
    assert sorted(linked - known) == []


@pytest.mark.parametrize("cls", BUILT_IN, ids=lambda cls: cls.__name__)
def test_every_setting_of_a_built_in_connector_is_explained(cls: Any) -> None:
    config = {
        "connector.class": cls.__name__, "transforms": "t", "transforms.t.type": "Filter", "predicates": "p",
        "predicates.p.type": "HasHeaderKey", "topic.creation.groups": "g", "value.converter": "JsonConverter",
    }  # fmt: skip
    names = [*source_config_def(config).keys, *cls.config_def().keys]
    assert [name for name in names if explain_setting(name, cls.__name__) is None] == []


def test_a_setting_is_explained_by_the_section_that_is_about_it() -> None:
    def of(name: str, class_name: str = "connectors.builtin.postgres.PostgresSourceConnector") -> str:
        found = explain_setting(name, class_name)
        return found.section if found else ""

    assert of("errors.deadletterqueue.topic.name") == "connectors#bad-records"
    assert of("transforms.cast.spec") == "connectors#transforms"
    assert of("transforms.cast.predicate") == "connectors#predicates"
    assert of("snapshot.mode") == "postgres#the-snapshot"
    assert of("snapshot.mode", "io.debezium.connector.postgresql.PostgresConnector").startswith("kafka-connect-plugins")
    assert of("acme.url", "org.acme.AcmeConnector") == ""
    check = explain_check("producer Write Topic orders")
    assert check is not None
    assert check.section == "exactly-once#permissions"


def test_the_form_and_a_failure_link_to_their_sections(client: Client, leader: FakeLeader) -> None:
    page = text(client.get("/ui/new?class=VerifiableSource"))
    assert page.count('<p class="more"><a href="/ui/docs/connectors#verifiablesource"') >= 1
    leader.config.config(connector("broken"))
    leader.start("broken")
    leader.report("broken", 0, State.FAILED, trace="org.apache.kafka.connect.errors.DataException: not a number")
    page = text(client.get("/ui/connectors/broken"))
    assert 'href="/ui/docs/connectors#bad-records" target="_blank" rel="noopener">Bad records' in page


@pytest.mark.parametrize(
    ("typed", "page"), [("/docs", "/ui/docs"), ("/docs/", "/ui/docs"), ("/docs/sql", "/ui/docs/sql")]
)
def test_what_people_type_leads_to_the_documents(client: Client, typed: str, page: str) -> None:
    assert client.get(typed)["location"] == page


def test_an_empty_installation_offers_starts_and_says_where_kafka_is(client: Client, leader: FakeLeader) -> None:
    ClusterInfo.objects.update_or_create(defaults={"kafka_bootstrap": "kafka.example:9092"})
    page = text(client.get("/ui/"))
    assert page.count(">Fill in the form</a>") == 3
    assert "kafka.example:9092" in page
    assert "--topic lines --from-beginning --isolation-level read_committed" in page
    assert "Needs attention" not in page
    for start in STARTS:
        form = text(client.get(start.address))
        assert f'value="{start.name}"' in form


def test_a_link_fills_in_settings(client: Client, leader: FakeLeader) -> None:
    form = text(client.get("/ui/new?class=VerifiableSource&setting:topic=from-a-link&setting:throughput=7"))
    assert 'value="from-a-link"' in form
    assert 'value="7"' in form
