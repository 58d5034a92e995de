"""Connectors with many settings, and the forms that the pages show for them."""

import re
from collections.abc import Mapping, Sequence

from ringfence.connectors.api import (
    CatalogEntry,
    Choice,
    ConfigDef,
    ConfigType,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    Importance,
    SourceConnector,
    SourceTask,
    Width,
)
from ringfence.connectors.builtin.webhook.connector import WebhookSourceConnector
from ringfence.connectors.plugins import PluginRegistry, describe

FRAGMENT = {"hx-request": "true"}


class Tables:
    """Recommends the tables of the database that is named, and hides itself without one."""

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        return [f"{config.get('database')}.a", f"{config.get('database')}.b"]

    def visible(self, name: str, config: Mapping[str, object]) -> bool:
        return bool(config.get("database"))


class RichConnector(SourceConnector):
    """Reads tables of a database."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        high = Importance.HIGH
        definition = ConfigDef()
        definition.define("poll.ms", ConfigType.INT, default=5, group="Pace", order_in_group=2, width=Width.SHORT)
        definition.define("topic", ConfigType.STRING, importance=high, group="Target", documentation="Where to.")
        definition.define(
            "table",
            ConfigType.STRING,
            default=None,
            importance=high,
            group="Source",
            order_in_group=2,
            recommender=Tables(),
        )
        definition.define(
            "database",
            ConfigType.STRING,
            default=None,
            importance=high,
            group="Source",
            order_in_group=1,
            dependents=["table"],
        )
        definition.define("password", ConfigType.PASSWORD, default=None, importance=high, group="Source")
        return definition

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        return SourceTask

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to open."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []


class ChoosingConnector(RichConnector):
    """Looks at its source to offer what is there."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define("tables", ConfigType.LIST, [], importance=Importance.HIGH)

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        return {"tables": [Choice("a.b", "3 rows <b>"), Choice("c.d", "key id")], "unknown": [Choice("x")]}


class KeyedConnector(RichConnector):
    """Is exactly once with a key."""

    catalog = CatalogEntry("Keyed", "For tests", guarantee=Guarantee.EXACTLY_ONCE_WITHIN_WINDOW)

    @classmethod
    def config_def(cls) -> ConfigDef:
        high = Importance.HIGH
        definition = ConfigDef().define("topic", ConfigType.STRING, importance=high)
        return definition.define("key", ConfigType.STRING, "", importance=high)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED if config.get("key") else ExactlyOnceSupport.UNSUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        return "" if config.get("key") else "Set key."


class ReachingConnector(RichConnector):
    """Tests its source, and asks afterwards what to read."""

    catalog = CatalogEntry("Reaching", "For tests", sample={"topic.prefix": "shop."}, selects=("table.names", "mode"))

    @classmethod
    def config_def(cls) -> ConfigDef:
        high = Importance.HIGH
        definition = ConfigDef().define("database.dbname", ConfigType.STRING, importance=high, group="Connection")
        definition.define("database.password", ConfigType.PASSWORD, default=None, importance=high, group="Connection")
        definition.define("table.names", ConfigType.LIST, [], importance=high, group="Tables")
        definition.define("mode", ConfigType.STRING, importance=high, group="Tables")
        definition.define("topic.prefix", ConfigType.STRING, importance=high)
        return definition.define("replace.null.with.default", ConfigType.BOOLEAN, default=True)

    def examine(self, config: Mapping[str, str]) -> Examination:
        if config.get("database.password") != "right":
            return Examination({"database.password": ["The server refuses the login."]})
        return Examination(summary="2 tables.", proposals={"mode": "exact", "database.dbname": "never"})


KINDS: dict[str, type[SourceConnector]] = {
    "Rich": RichConnector,
    "Choosing": ChoosingConnector,
    "Keyed": KeyedConnector,
    "Reaching": ReachingConnector,
    "WebhookSource": WebhookSourceConnector,
}


REGISTRY = PluginRegistry([describe(cls, name) for name, cls in KINDS.items()])


RICH = {"class": "Rich", "name": "c", "mode": "form"}


def posted_by(page: str, **typed: str) -> dict[str, str]:
    """What a browser would send of the form, with some fields typed into."""
    found = dict(
        re.findall(
            r'<input type="hidden" name="((?:keep|blank):[^"]+|class|of|mode|later|has-answer|name-proposal|'
            r'topic-suffix)"[^>]* value="([^"]*)"',
            page,
        )
    )
    for tag in re.findall(r"<input [^>]*>", page):
        name = re.search(r' name="(setting:[^"]+|name)"', tag)
        value = re.search(r' value="([^"]*)"', tag)
        if name:
            found[name[1]] = value[1] if value else ""
    for name, options in re.findall(r'<select [^>]*name="(setting:[^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)<', options)
        found[name] = "" if not chosen else chosen[1] or chosen[2]
    for name, value in re.findall(r'<textarea [^>]*name="(setting:[^"]+)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL):
        found[name] = value
    return {**found, **{(key if key in ("name", "json", "mode") else f"setting:{key}"): v for key, v in typed.items()}}
