"""The results beside a form during typing: each transform's output for one record, and the configuration as JSON.

One request per pause in the typing. Only transforms and converters run, on a sample that the form sends.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api.base import object_of, plain, read
from ringfence.api.v1 import previews
from ringfence.connectors.transforms.registry import aliases, transform_keys
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker
from ringfence.web.new.field import Field
from ringfence.web.new.form import text_of
from ringfence.web.new.form_state import FormState, read_posted, settings_to_keep, visible_settings
from ringfence.web.new.preflight import OUTCOMES
from ringfence.web.new.transform_menu import describe_type
from ringfence.web.new.transform_predicates import LIST, predicate_of
from ringfence.web.state_badges import Badge

_PARTS: Final = ("topic", "key", "value", "headers", "timestamp")
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True)
class Change:
    """A part of a record before and after a transform; "" if absent."""

    part: str
    before: str
    after: str


@dataclass(slots=True)
class Sample:
    """One transform's effect on the record. waits: why it was not run."""

    slug: str
    look: Badge | None = None
    changes: list[Change] = field(default_factory=list)
    error: str = ""
    waits: str = ""


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def beside(request: HttpRequest) -> HttpResponse:
    """Render the fragments: a sample for each transform, the converted record, and the JSON."""
    context: dict[str, Any] = {}
    try:
        draft = read_posted(request)
        if draft.name and not principal_of(request).may(Verb.EDIT, draft.name):
            raise bad_request(f"You need the edit permission on connector {draft.name}.")
        undeclared_keys = frozenset(map(str, [*request.POST.getlist("undeclared"), *request.POST.getlist("extra-key")]))
        stored_draft = settings_to_keep(draft, Masker([draft.class_name]), undeclared_keys)
        context = {"text": text_of(draft), "kept": json.dumps(stored_draft)}
        java = principal_of(request).may(Verb.JAVA_PLUGINS, draft.name)
        context |= _walk(visible_settings(request, draft), str(request.POST.get("sample", "")), draft, java)
    except (ConnectError, Refusal) as error:
        context["problem"] = error.message
    return render(request, "ringfence/parts/new_beside.html", context)


def _walk(settings: Mapping[str, str], text: str, draft: FormState, java: bool) -> dict[str, Any]:
    """Return `samples`, and `written` or why it is missing. java: whether Java plugins are permitted."""
    if not draft.class_name or not text.strip():
        return {"without_record": bool(draft.class_name)}
    try:
        record = object_of(plain(read(text.encode("utf-8", "replace"))), "The sample record")
    except ConnectError as error:
        raise bad_request(f"The sample record: {error.message}") from error
    names = list(dict.fromkeys(aliases(settings, "transforms")))
    sound = _count_sound(settings, names)
    step_predicates = [predicate_of(settings, alias) for alias in names[:sound]]
    predicates = [each for each in aliases(settings, LIST) if each in step_predicates]
    shorter = {key: value for key, value in settings.items() if key != LIST} | {"transforms": ",".join(names[:sound])}
    shorter |= {LIST: ",".join(predicates)} if predicates else {}
    try:
        preview, problem = previews.try_transforms(shorter, record, java=java), ""
    except (ConnectError, Refusal) as error:
        if not any(key.startswith(_CONVERTERS) for key in shorter):
            raise
        problem = error.message  # the error may be a converter's: show the transforms without it
        without = {key: value for key, value in shorter.items() if not key.startswith(_CONVERTERS)}
        preview = previews.try_transforms(without, record, java=java)
    return {
        "samples": _samples(preview, names, sound, settings),
        **_describe_written(preview, sound == len(names), problem),
    }


def _count_sound(settings: Mapping[str, str], names: list[str]) -> int:
    """Return how many transforms have valid settings by their definitions, up to the first that has not.

    A class with its full name may be a Java plugin's, which only the worker can check.
    """
    wrong = {value.name for value in transform_keys(settings).validate(settings) if value.errors}
    wrong -= {name for name in wrong if name.endswith(".type") and "." in settings.get(name, "")}
    for number, alias in enumerate(names):
        mine = (f"transforms.{alias}.", f"{LIST}.{predicate_of(settings, alias) or '?'}.")
        if any(name.startswith(mine) for name in wrong):
            return number
    return len(names)


def _samples(preview: Mapping[str, Any], names: list[str], sound: int, settings: Mapping[str, str]) -> list[Sample]:
    samples, before = [], preview["before"]
    waits_for = ""
    by_name = {step["name"]: step for step in preview["steps"]}
    for number, alias in enumerate(names):
        sample = Sample(Field.slug_of(f"transforms.{alias}"))
        step = by_name.get(alias)
        if step is not None:
            sample.look, sample.error = OUTCOMES[step["outcome"]], step["error"]
            if step["record"] is not None:
                sample.changes = list_changes(before, step["record"])
                before = step["record"]
        elif number == sound:
            sample.waits = "Fill in its settings to see what it does."
        else:
            sample.waits = f"The record does not reach this transform: see {waits_for}."
        if step is None or step["record"] is None:
            waits_for = waits_for or describe_type(settings.get(f"transforms.{alias}.type", "")).title
        samples.append(sample)
    return samples


def _describe_written(preview: Mapping[str, Any], whole: bool, problem: str) -> dict[str, Any]:
    if problem or not whole:
        return {"refused": problem}
    if _lacks_schema(preview):
        return {"lacks_schema": True}
    return {"written": preview["written"], "outcome": OUTCOMES[preview["outcome"]], "error": preview["error"]}


def _lacks_schema(preview: Mapping[str, Any]) -> bool:
    """Return whether the converter writes schemas: a sample that was typed has none, and the source's records have."""
    value = (preview["written"] or {}).get("value") or {"text": ""}
    return "it needs a schema" in preview["error"] or value["text"].startswith('{"schema":null,')


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the parts of a record that differ."""
    pairs = [Change(part, _text(before[part]), _text(after[part])) for part in _PARTS]
    return [pair for pair in pairs if pair.before != pair.after]


def _text(part: object) -> str:
    match part:
        case None:
            return ""
        case {"text": text, "cut": cut}:
            return f"{text} … and {cut} more characters" if cut else str(text)
        case list():
            return ", ".join(f"{name}: {_text(value)}" for name, value in part)
        case _:
            return str(part)
