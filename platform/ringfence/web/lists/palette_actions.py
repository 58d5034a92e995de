"""The connector actions that can be typed into the palette, and the page that each opens."""

from dataclasses import dataclass
from typing import Final

from ringfence.access.verbs import Verb
from ringfence.web.action_buttons import ACTIONS


@dataclass(frozen=True, slots=True)
class Act:
    """word: what the user types, or its beginning; address: of the confirmation or page, with {} for the connector."""

    word: str
    address: str
    verb: Verb
    icon: str


ACTS: Final = (
    *(Act(each.name, f"/ui/connectors/{{}}/actions/{each.name}", each.verb, each.icon) for each in ACTIONS),
    Act("edit", "/ui/connectors/{}/edit", Verb.EDIT, "pencil"),
    Act("fence", "/console/connectors/{}/fence/", Verb.FENCE, "shield"),
    Act("delete", "/ui/connectors/{}/delete", Verb.DELETE, "trash-2"),
    Act("offsets", "/ui/connectors/{}/offsets", Verb.VIEW, "list-ordered"),
    Act("logs", "/ui/connectors/{}/logs", Verb.VIEW, "file-text"),
)
