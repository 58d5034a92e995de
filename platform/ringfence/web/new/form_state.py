"""The state of an open form: a configuration that is not stored yet, from fields or pasted text. Its secrets are sent,
and never returned.

In the form and in the text, a kept secret is a mask. A mask stands for, in this order: the value typed into the
setting's field, the text's value, the value stored under the connector that the form was filled from.

A browser may store a part of an unsent form: never a secret, nor anything that could be one.

Pasted text is JSON in either shape, properties, YAML or a curl command. Commands are never run.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from django.http import HttpRequest, QueryDict

from ringfence.access.authorise import authorise, principal_of
from ringfence.access.principal import Verb
from ringfence.api import connector_writes
from ringfence.api.base import config_of, object_of, read, text_of
from ringfence.api.v1 import transfer
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk import properties
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker, has_mask, unmask
from ringfence.web.new.field import SETTING

_DATA: Final = ("--data-raw", "--data-binary", "--data-ascii", "--data", "--json", "-d")
_YAML: Final = re.compile(r"^(- )?(name|config|connector\.class):(\s|$)", re.MULTILINE)
_IN_PATH: Final = re.compile(r"/connectors/([^/]+)(/config)?/?$")


@dataclass(frozen=True, slots=True)
class PastedConfig:
    """text_format: how the text was interpreted, in words."""

    name: str
    config: dict[str, str]
    text_format: str


def read_pasted(text: str) -> PastedConfig:
    """Parse one connector. Raises a 400 that names the expected formats."""
    paste = text.strip()
    if len(paste) > transfer.MOST_BYTES:
        raise bad_request(f"The text has more than {transfer.MOST_BYTES:,} characters: no connector is that large.")
    if not paste:
        raise bad_request("Nothing was pasted: JSON, properties or a curl command is expected.")
    if re.match(r"(\$ +)?curl\s", paste):
        return _curl(paste.removeprefix("$").strip())
    if paste[0] in "{[":
        return _json(paste, "")
    if _YAML.search(paste):
        return _parse_list(transfer.parse(paste, "yaml"), "YAML")
    try:
        config = properties.read(paste)
    except properties.MalformedLine as error:
        raise bad_request(
            f"This is neither JSON nor a curl command, and as properties {error}. Paste one of these."
        ) from error
    return PastedConfig(config.get("name", "").strip(), config, "properties")


def _json(text: str, name: str) -> PastedConfig:
    """Parse JSON. name: from the address of a curl command, if any."""
    value = read(text.encode("utf-8", "replace"), "The text")
    if isinstance(value, list):
        if len(value) != 1:
            raise bad_request(f"The list contains {len(value)} connectors. Paste one; an import accepts several.")
        value = value[0]
    body = object_of(value, "What was pasted")
    if isinstance(body.get("config"), dict):
        config = config_of(body["config"])
        own_name = text_of(body.get("name") or config.get("name", ""), "name").strip()
        return PastedConfig(own_name or name, config, 'JSON with "name" and "config"')
    config = config_of(body)
    return PastedConfig(config.get("name", "").strip() or name, config, "JSON with the settings alone")


def _parse_list(configs: list[dict[str, str]], word: str) -> PastedConfig:
    if len(configs) != 1:
        raise bad_request(f"There are {len(configs)} connectors. Paste one; an import accepts several.")
    return PastedConfig(configs[0].get("name", ""), configs[0], word)


def _curl(text: str) -> PastedConfig:
    try:
        words = shlex.split(re.sub(r"[\\^]\r?\n", " ", text))[1:]
    except ValueError as error:
        raise bad_request(f"The curl command cannot be read ({error}). Paste it whole, with its quotes.") from error
    bodies = list(_bodies(words))
    if not bodies:
        raise bad_request("The curl command sends no body: it needs -d or --data with the JSON.")
    body = "&".join(bodies)
    if body.startswith("@"):
        raise bad_request(f"The curl command reads its body from the file {body[1:]}. Paste the file's content.")
    paths = [urlsplit(word).path for word in words if "://" in word or "/connectors" in word]
    match = _IN_PATH.search(paths[0]) if paths else None
    content = _json(body, unquote(match[1]) if match else "")
    return PastedConfig(content.name, content.config, f"a curl command that sends {content.text_format}")


def _bodies(words: list[str]) -> Iterator[str]:
    for number, word in enumerate(words):
        for flag in _DATA:
            if word == flag and number + 1 < len(words):
                yield words[number + 1]
            elif word.startswith(f"{flag}=") and flag.startswith("--"):
                yield word.removeprefix(f"{flag}=")
            elif flag == "-d" and word.startswith("-d") and len(word) > 2 and not word.startswith("--"):
                yield word[2:]
            else:
                continue
            break


KEEP = "keep:"
"""Prefix of a field's name: the secret in it is kept if the field is empty."""
BLANK = "blank:"
"""Prefix of a field's name: its setting is present, and empty."""
DROP = "drop:"
"""Prefix of a field's name: the kept secret is removed."""


@dataclass(slots=True)
class FormState:
    """config: with masks for untouched secrets. of: the connector whose stored values they stand for.

    fresh: source offsets stored under the name are deleted before it starts.
    """

    name: str = ""
    config: dict[str, str] = field(default_factory=dict)
    of: str = ""
    state: str = "RUNNING"
    fresh: bool = False
    mode: str = "form"
    text_format: str = ""
    editing: bool = False
    """Whether it replaces the connector stored under its name."""
    has_answer: bool = False
    """Whether the source has answered a test, so that the form asks what to read."""

    @property
    def class_name(self) -> str:
        return self.config.get("connector.class", "").strip()

    @property
    def settings(self) -> dict[str, str]:
        """The configuration including the name, for a validation. Masks stay."""
        return {**self.config, "name": self.name}


def draft_of(data: QueryDict, values: Mapping[str, str] | None = None) -> FormState:
    """Parse a form. values: those that its fields were filled with; an untouched field keeps its value exactly.

    Raises a 400 for text that cannot be read, and for a setting that is set twice.
    """
    state = str(data.get("state", "RUNNING"))
    draft = FormState(
        name=str(data.get("name", "")).strip(),
        of=str(data.get("of", "")),
        state=state if state in connector_writes.INITIAL_STATES else "RUNNING",
        fresh=data.get("begin") == "fresh",
        editing=data.get("editing") == "1",
        has_answer=data.get("has-answer") == "1",
        mode="json" if data.get("mode") == "json" or ("json" in data and "class" not in data) else "form",
    )
    if draft.mode == "form":
        draft.config = _of_fields(data, values or {})
        return draft
    content = read_pasted(str(data.get("json", "")))
    if draft.editing and content.name:
        connector_writes.with_name(draft.name, {"name": content.name})  # an edit cannot rename
    draft.name, draft.text_format = content.name or draft.name, content.text_format
    draft.config = {
        key: (str(data.get(SETTING + key, "")) or value) if value == HIDDEN else value
        for key, value in content.config.items()
    }
    return draft


def read_posted(request: HttpRequest) -> FormState:
    """Parse the draft that a form sends. Untouched fields of an existing connector keep their values exactly."""
    of, who = str(request.POST.get("of", "")), principal_of(request)
    settings = connector_writes.read_stored_settings(of) if of and who.may(Verb.VIEW_CONFIG, of) else {}
    return draft_of(request.POST, settings)


def complete(request: HttpRequest, draft: FormState) -> dict[str, str]:
    """Return the configuration without masks, with its name. Requires `edit` on the name, and on the connector whose
    secrets it uses.

    Raises `ConnectError` or `Forbidden`.
    """
    if not draft.name:
        raise bad_request("The connector has no name yet. Fill in Name.")
    config = connector_writes.with_name(draft.name, draft.config)
    authorise(request, Verb.EDIT, draft.name)
    if not has_mask(config):
        return config
    of = draft.of or draft.name
    # Otherwise a user could send another connector's secret to a server of their choice.
    authorise(request, Verb.EDIT, of)
    authorise(request, Verb.VIEW_CONFIG, of)
    authorise(request, Verb.EDIT, draft.name)  # the audit entry is about this connector
    return unmask(config, connector_writes.read_stored_settings(of))


def visible_settings(request: HttpRequest, draft: FormState) -> dict[str, str]:
    """Return the same for a form in progress, as far as the user may see it. Other masks stay."""
    settings, of = draft.settings, draft.of or draft.name
    who = principal_of(request)
    if has_mask(settings) and who.may(Verb.EDIT, of) and who.may(Verb.VIEW_CONFIG, of):
        stored_settings = connector_writes.read_stored_settings(of)
        return {key: stored_settings.get(key, value) if value == HIDDEN else value for key, value in settings.items()}
    return settings


def _of_fields(data: QueryDict, stored_settings: Mapping[str, str]) -> dict[str, str]:
    config = {"connector.class": str(data.get("class", "")).strip()}
    text = _text(data)
    stored_settings = {**stored_settings, **text}
    for key, value in data.items():
        if not key.startswith(SETTING):
            continue
        name, field_text = key.removeprefix(SETTING), str(value).replace("\r\n", "\n")
        if KEEP + key in data:
            if field_text.strip() or DROP + key not in data:
                config[name] = field_text if field_text.strip() else text.get(name, HIDDEN)
        elif name in stored_settings and field_text == stored_settings[name].replace("\r\n", "\n"):
            config[name] = stored_settings[name]
        elif field_text.strip() or BLANK + key in data:
            config[name] = field_text
    for key, value in zip(data.getlist("extra-key"), data.getlist("extra-value"), strict=False):
        if (name := str(key).strip()) in config:
            raise bad_request(f"{name} is set twice: change it above, and leave the line for other properties empty.")
        if name:
            config[name] = str(value)
    return config


def _text(data: QueryDict) -> dict[str, str]:
    """Return the settings of the text beside the form, which contains the pasted secrets."""
    with suppress(ConnectError):
        return read_pasted(str(data.get("json", ""))).config
    return {}


_LOGIN: Final = re.compile(r"://([^/\s@]*+)@")
"""What is before the host in an address."""
_OPTION: Final = re.compile(r"(\w++)\s*+([=:]?)")
_ENDINGS: Final = ("pwd", "secret", "token", "key")


def carries_secret(value: str) -> bool:
    """Return whether a value contains one: a user and password in an address, or `password=…` among options.

    In time linear in the value: nothing that was read is read again.
    """
    if any(":" in login for login in _LOGIN.findall(value)):
        return True
    words = (word.casefold() for word, sign in _OPTION.findall(value) if sign)
    return any("pass" in word or word.endswith(_ENDINGS) for word in words)


def settings_to_keep(draft: FormState, masker: Masker, undeclared_keys: frozenset[str]) -> dict[str, object]:
    """Return `{"name", "config", "left_out"}`. left_out: settings that must be typed again.

    undeclared_keys: of settings that no plugin declares, so that any of them may be a secret.
    """
    config: dict[str, str] = {}
    left_out: list[str] = []
    for key, value in masker.mask(draft.config).items():
        if value == HIDDEN or key in undeclared_keys or carries_secret(value):
            left_out.append(key)
        else:
            config[key] = value
    return {"name": draft.name, "config": config, "left_out": sorted(left_out)}
