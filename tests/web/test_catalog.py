"""The catalog's cards, and documentation that is safe whoever wrote it."""

import pytest

from ringfence.connectors.api import CatalogEntry, Category, Guarantee, SourceConnector
from ringfence.connectors.common_settings import CONNECTOR_CLASS, source_config_def
from ringfence.connectors.known_plugins import list_installable
from ringfence.connectors.plugin_names import are_coordinates
from ringfence.connectors.plugins import PluginRegistry
from ringfence.engine.plugins.calls import ListPlugins, PluginRuntime
from ringfence.web.icons import has_icon
from ringfence.web.markdown import render_markdown
from ringfence.web.new.catalog import card_of, find_installable, group, matches
from tests.support.catalog import BUILT_IN


@pytest.mark.parametrize("cls", BUILT_IN, ids=lambda cls: cls.__name__)
def test_our_connectors_say_what_they_are(cls: type[SourceConnector]) -> None:
    entry = cls.catalog
    assert entry is not None
    assert entry.guarantee is not Guarantee.UNKNOWN
    assert entry.category in Category
    assert has_icon(entry.icon)
    assert not entry.title.endswith(("Source", "Connector")), "a class, and no title for people"
    own = cls.config_def().keys
    unknown = entry.sample.keys() - own.keys() - source_config_def({CONNECTOR_CLASS: "x"}).keys.keys()
    assert not unknown, "the sample has settings that nobody reads"
    required = {key.name for key in own.values() if key.required}
    secret = {name for name in required if "password" in name}
    assert required - entry.sample.keys() <= secret, "the sample leaves out what is required"


def test_a_plugin_process_tells_all_of_it() -> None:
    answer = ListPlugins().answer(PluginRuntime(PluginRegistry.discover(), lambda _: None))
    plugins = {str(each["class"]).rpartition(".")[2]: each for each in answer["plugins"]}  # type: ignore[attr-defined]
    card = card_of(plugins["PostgresSourceConnector"])
    assert (card.title, card.category, card.guarantee) == ("PostgreSQL changes", "Databases", "Exactly once")
    assert not card.goes_back
    assert '"connector.class": "PostgresSource"' in card.sample


def test_a_plugin_that_declares_nothing_is_shown_by_its_documentation() -> None:
    card = card_of(
        {"class": "acme.Weather2Connector", "version": "2.0", "documentation": "# Weather\n\nReads `rain`.\n"}
    )
    assert (card.title, card.summary, card.guarantee) == ("Weather2", "Reads rain.", "No guarantee declared")
    assert (card.category, card.icon, card.sample) == ("Other", "plug", "")


@pytest.mark.parametrize(
    ("class_name", "title"),
    [
        ("acme.SalesforceBulkApiSourceConnector", "Salesforce Bulk Api"),
        ("acme.HTTPPollSource", "HTTP Poll"),
        ("acme.Connector", "Connector"),
    ],
)
def test_a_class_without_a_title_is_shown_in_words(class_name: str, title: str) -> None:
    card = card_of({"class": class_name})
    assert card.title == title
    assert card.short == class_name.rpartition(".")[2]


def test_an_icon_that_is_none_is_replaced_by_that_of_the_category() -> None:
    entry = CatalogEntry("Y", "Y", Category.FILES, icon="no-such-icon").as_json()
    assert card_of({"class": "acme.Y", "catalog": entry}).icon == "file-text"


def test_java_plugins_are_among_those_of_their_subject_or_in_a_category_of_their_own() -> None:
    debezium = "io.debezium.connector.mongodb.MongoDbConnector"
    groups = group([{"class": "io.debezium.X", "java": True}, {"class": "acme.Y"}, {"class": debezium, "java": True}])
    assert [name for name, _ in groups] == ["Databases", "Other", "Java plugins"]
    assert groups[0][1][0].title == "MongoDB changes, by Debezium"


def test_what_is_known_of_plugins_of_others_can_be_shown() -> None:
    for class_name, known in list_installable().items():
        assert are_coordinates(known.coordinates), class_name
        assert has_icon(known.entry.icon), class_name
        assert known.entry.summary.endswith("."), class_name


def test_a_search_finds_what_is_not_installed_yet() -> None:
    (mongodb,) = find_installable("mongodb", [])
    assert mongodb.coordinates.startswith("io.debezium:debezium-connector-mongodb:")
    assert find_installable("mongodb", [{"class": mongodb.class_name}]) == []
    assert find_installable("", []) == []
    assert find_installable("no such source", []) == []


def test_a_search_finds_a_service_that_a_connector_reads() -> None:
    entry = next(cls for cls in BUILT_IN if "Dlt" in cls.__name__).catalog
    assert entry is not None
    assert matches({"class": "x.DltSourceConnector", "catalog": entry.as_json()}, "Salesforce")


def test_the_report_of_the_suite_is_a_badge() -> None:
    report = {"suite": 1, "day": "2026-11-01", "passed": ["kills"], "skipped": ["tasks"]}
    card = card_of({"class": "acme.Y", "exactly_once_report": report})
    assert card.report == "Passed 1 check of the compatibility suite, 1 not applicable, on 2026-11-01"
    assert card_of({"class": "acme.Y", "exactly_once_report": None}).report == ""


@pytest.mark.parametrize("query", ["postgres", "change data", "databases", "exactly once"])
def test_a_plugin_is_found_by_what_it_does(query: str) -> None:
    entry = next(cls for cls in BUILT_IN if "Postgres" in cls.__name__).catalog
    assert entry is not None
    plugin = {"class": "connectors.builtin.postgres.connector.PostgresSourceConnector", "catalog": entry.as_json()}
    assert matches(plugin, query)
    assert not matches(plugin, f"{query} mongodb")


@pytest.mark.parametrize(
    "text, html",
    [
        ("# Title\n\nSome **words**.", "<h2>Title</h2>\n<p>Some <strong>words</strong>.</p>\n"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        ("[docs](../../docs/x.md)", "<p>docs</p>\n"),
        ("![x](https://e.com/x.png)", '<p>!<a href="https://e.com/x.png" rel="noreferrer">x</a></p>\n'),
        ("[x](https://e.com)", '<p><a href="https://e.com" rel="noreferrer">x</a></p>\n'),
    ],
)
def test_documentation_is_html_that_runs_nothing(text: str, html: str) -> None:
    assert render_markdown(text) == html
