"""The connector actions that can be typed into the palette, the page that each opens, and what can be created."""

from dataclasses import dataclass
from typing import Final

from ringfence.access.principal import Verb
from ringfence.web.action_buttons import ACTIONS


@dataclass(frozen=True, slots=True)
class Act:
    """word: what the user types, or its beginning; title: what it is called; address: of the confirmation or page, with
    {} for the connector; in_place: the confirmation opens over the page where the user is.
    """

    word: str
    title: str
    address: str
    verb: Verb
    icon: str
    in_place: bool = False


ACTS: Final = (
    *(
        Act(
            each.name.replace("-", " "),
            each.word,
            f"/ui/connectors/{{}}/actions/{each.name}",
            each.verb,
            each.icon,
            in_place=True,
        )
        for each in ACTIONS
    ),
    Act("edit", "Edit", "/ui/connectors/{}/edit", Verb.EDIT, "pencil"),
    Act("fence", "Fence", "/ui/connectors/{}/fence", Verb.FENCE, "shield", in_place=True),
    Act("delete", "Delete", "/ui/connectors/{}/delete", Verb.DELETE, "trash-2", in_place=True),
    Act("offsets", "Offsets of", "/ui/connectors/{}/offsets", Verb.VIEW, "list-ordered"),
    Act("logs", "Logs of", "/ui/connectors/{}/logs", Verb.VIEW, "file-text"),
)


@dataclass(frozen=True, slots=True)
class NewThing:
    """Something to create. known_as: other words for it."""

    word: str
    address: str
    icon: str
    known_as: str = ""


NEW: Final = (
    NewThing("New connector", "/ui/new", "plus", "create add source"),
    NewThing("New connector from PostgreSQL", "/ui/new?class=PostgresSource", "database", "postgres database cdc"),
    NewThing("New connector from a SQL database", "/ui/new?class=SqlSource", "database", "mysql mariadb sqlite tables"),
    NewThing("New connector from files", "/ui/new?class=FilesSource", "file-text", "csv parquet json s3 folder"),
    NewThing("New connector from a REST API", "/ui/new?class=DltSource", "app-window", "dlt http json"),
    NewThing("New connector from webhooks", "/ui/new?class=WebhookSource", "app-window", "http hooks"),
    NewThing("New alert rule", "/ui/incidents/rules/new", "bell", "create add"),
    NewThing("New destination", "/ui/incidents/destinations/new", "send", "slack teams pagerduty opsgenie mail"),
)
