"""What an open form holds: a configuration that nobody has stored yet. Its secrets are sent, and never sent back.

In the form a secret that was kept is a mask; in the text, too. A mask stands for, in this order: what is typed into the
setting's field, what the text says, what is stored under the connector that the form was filled from.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from django.http import HttpRequest, QueryDict

from ringfence.access.authorise import authorise, principal_of
from ringfence.access.verbs import Verb
from ringfence.api import writing
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import has_mask, unmask
from ringfence.web.new.field import SETTING
from ringfence.web.new.pasted_config import read_pasted

KEEP = "keep:"
"""Before a field's name: the secret in it is kept where the field is empty."""
BLANK = "blank:"
"""Before a field's name: its setting is there, and empty."""
DROP = "drop:"
"""Before a field's name: the secret that was kept goes."""


@dataclass(slots=True)
class FormState:
    """`config` holds masks for secrets that were left alone. `of`: the connector whose stored values they stand for.

    fresh: source offsets that stand under the name are deleted before it starts.
    """

    name: str = ""
    config: dict[str, str] = field(default_factory=dict)
    of: str = ""
    state: str = "RUNNING"
    fresh: bool = False
    mode: str = "form"
    understood: str = ""
    editing: bool = False
    """It is to replace what is stored under its name."""

    @property
    def class_name(self) -> str:
        return self.config.get("connector.class", "").strip()

    @property
    def settings(self) -> dict[str, str]:
        """The configuration with the name in it, for a validation; the masks stay."""
        return {**self.config, "name": self.name}


def draft_of(posted: QueryDict, known: Mapping[str, str] | None = None) -> FormState:
    """`known`: what the fields were filled with; one that was left alone keeps its value to the letter.

    Raises a 400 for a string that cannot be read, and for a setting that is there twice.
    """
    state = str(posted.get("state", "RUNNING"))
    draft = FormState(
        name=str(posted.get("name", "")).strip(),
        of=str(posted.get("of", "")),
        state=state if state in writing.INITIAL_STATES else "RUNNING",
        fresh=posted.get("begin") == "fresh",
        editing=posted.get("editing") == "1",
        mode="json" if posted.get("mode") == "json" or ("json" in posted and "class" not in posted) else "form",
    )
    if draft.mode == "form":
        draft.config = _of_fields(posted, known or {})
        return draft
    pasted = read_pasted(str(posted.get("json", "")))
    if draft.editing and pasted.name:
        writing.with_name(draft.name, {"name": pasted.name})  # an edit does not rename
    draft.name, draft.understood = pasted.name or draft.name, pasted.understood
    draft.config = {
        key: (str(posted.get(SETTING + key, "")) or value) if value == HIDDEN else value
        for key, value in pasted.config.items()
    }
    return draft


def read_posted(request: HttpRequest) -> FormState:
    """The draft that a form sends. What its fields were filled with from a connector keeps its value to the letter."""
    of, who = str(request.POST.get("of", "")), principal_of(request)
    known = writing.read_stored_settings(of) if of and who.may(Verb.VIEW_CONFIG, of) else {}
    return draft_of(request.POST, known)


def complete(request: HttpRequest, draft: FormState) -> dict[str, str]:
    """The configuration without masks, with its name. Needs `edit` on the name, and on whose secrets it takes.

    Raises ConnectError, Forbidden.
    """
    if not draft.name:
        raise bad_request("The connector has no name yet. Fill in Name.")
    named = writing.with_name(draft.name, draft.config)
    authorise(request, Verb.EDIT, draft.name)
    if not has_mask(named):
        return named
    of = draft.of or draft.name
    # Or somebody else's secret could be sent to a place of one's own choice.
    authorise(request, Verb.EDIT, of)
    authorise(request, Verb.VIEW_CONFIG, of)
    authorise(request, Verb.EDIT, draft.name)  # the audit entry is about this one
    return unmask(named, writing.read_stored_settings(of))


def visible_settings(request: HttpRequest, draft: FormState) -> dict[str, str]:
    """The same as far as it may be known, for a form that is still being filled in: other masks stay."""
    settings, of = draft.settings, draft.of or draft.name
    who = principal_of(request)
    if has_mask(settings) and who.may(Verb.EDIT, of) and who.may(Verb.VIEW_CONFIG, of):
        stored = writing.read_stored_settings(of)
        return {key: stored.get(key, value) if value == HIDDEN else value for key, value in settings.items()}
    return settings


def _of_fields(posted: QueryDict, known: Mapping[str, str]) -> dict[str, str]:
    config = {"connector.class": str(posted.get("class", "")).strip()}
    text = _text(posted)
    known = {**known, **text}
    for key, value in posted.items():
        if not key.startswith(SETTING):
            continue
        name, given = key.removeprefix(SETTING), str(value).replace("\r\n", "\n")
        if KEEP + key in posted:
            if given.strip() or DROP + key not in posted:
                config[name] = given if given.strip() else text.get(name, HIDDEN)
        elif name in known and given == known[name].replace("\r\n", "\n"):
            config[name] = known[name]
        elif given.strip() or BLANK + key in posted:
            config[name] = given
    for key, value in zip(posted.getlist("extra-key"), posted.getlist("extra-value"), strict=False):
        if (name := str(key).strip()) in config:
            raise bad_request(f"{name} is set twice: change it above, and leave the line for other properties empty.")
        if name:
            config[name] = str(value)
    return config


def _text(posted: QueryDict) -> dict[str, str]:
    """The settings of the text beside the form, which holds the secrets that were pasted."""
    with suppress(ConnectError):
        return read_pasted(str(posted.get("json", ""))).config
    return {}
