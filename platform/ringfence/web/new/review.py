"""The review before a connector is created: differences from the defaults, and the same as commands to copy."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_writes
from ringfence.api.v1.transfer import write
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError
from ringfence.http.masking import Masker
from ringfence.web.connector.config_diff import changes
from ringfence.web.new import form as filling
from ringfence.web.new.form_state import FormState, complete, read_posted

_END = "END_OF_CONNECTOR"


@dataclass(frozen=True, slots=True)
class Line:
    """A setting beside its default; None if there is none. Secrets are masked."""

    key: str
    default: str | None
    value: str
    declared: bool

    @property
    def differs(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True, slots=True)
class Copy:
    """A text to copy."""

    key: str
    title: str
    text: str


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def review(request: HttpRequest) -> HttpResponse:
    """Review the form's configuration, with the errors that would refuse it."""
    try:
        draft = read_posted(request)
        config = complete(request, draft)
        context = {**filling.form_context(request, draft, ask_brokers=True), "slots": True}
        context |= _describe(request, draft, config, context)
    except (ConnectError, Refusal) as error:
        context = {"problem": error.message}
    return render(request, "ringfence/parts/new_review.html", context)


def _describe(
    request: HttpRequest, draft: FormState, config: Mapping[str, str], context: Mapping[str, Any]
) -> dict[str, Any]:
    masker = Masker([draft.class_name])
    masked_config = masker.mask(config)
    return {
        "lines": lines(context, masked_config),
        "masked": HIDDEN in masked_config.values(),
        "copies": copies(masked_config, draft, request.build_absolute_uri("/")),
        **_against_model(request, draft, config, masker),
    }


def _against_model(request: HttpRequest, draft: FormState, config: Mapping[str, str], masker: Masker) -> dict[str, Any]:
    """For a copy or an edit, return the differences from the original connector."""
    stored_settings = connector_writes.read_stored_settings(draft.of) if draft.of else {}
    if not stored_settings or not principal_of(request).may(Verb.VIEW_CONFIG, draft.of):
        return {}
    return {"model_changes": changes({**stored_settings, "name": draft.of}, config, masker)}


def lines(context: Mapping[str, Any], masked_config: Mapping[str, str]) -> list[Line]:
    """Return every present setting beside its default."""
    fields = {each.name: each for each in context["layout"].list_declared()}
    rows = []
    for key, value in sorted(masked_config.items()):
        if key in ("name", "connector.class"):
            continue
        field = fields.get(key)
        default = (field.default or None) if field is not None else None
        rows.append(Line(key, default, value, field is not None))
    return rows


def copies(masked_config: Mapping[str, str], draft: FormState, address: str) -> list[Copy]:
    """Return the same for REST, for the command line, and as a file. masked_config: with masked secrets."""
    config = {key: value for key, value in masked_config.items() if key != "name"}
    yaml = write([dict(masked_config)], "yaml")
    if draft.editing:
        curl = _curl("PUT", f"{address}connectors/{quote(draft.name, safe='')}/config", config)
        return [Copy("rest", "REST", curl), Copy("cli", "CLI", _command("apply", yaml)), Copy("yaml", "YAML", yaml)]
    body: dict[str, object] = {"name": draft.name, "config": config}
    state = "" if draft.state == "RUNNING" else f" --state {draft.state.lower()}"
    if state:
        body["initial_state"] = draft.state
    curl = _curl("POST", f"{address}connectors", body)
    command = _command(f"create{state}", yaml)
    return [Copy("rest", "REST", curl), Copy("cli", "CLI", command), Copy("yaml", "YAML", yaml)]


def _curl(method: str, address: str, body: Mapping[str, object]) -> str:
    data = shlex.quote(json.dumps(body, indent=2, ensure_ascii=False))
    return f"curl -X {method} {shlex.quote(address)} \\\n  -H 'Content-Type: application/json' \\\n  -d {data}\n"


def _command(action: str, yaml: str) -> str:
    return f"ringfence connectors {action} -f - <<'{_END}'\n{yaml}{_END}\n"
