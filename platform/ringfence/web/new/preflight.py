"""Checks before a connector runs: its preflight checks, first records, and a record through its transforms.

These are fragments below the form of a new or edited connector. Nothing is created, written or committed.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api.base import object_of, plain, read
from ringfence.api.preflight import checks_of
from ringfence.api.v1 import previews
from ringfence.audit import probes
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.section_links import explain_check
from ringfence.web.new.form_state import complete, read_posted
from ringfence.web.state_badges import Badge, Severity

REFUSES = Badge("Failed", "circle-x", Severity.BAD, "The configuration is refused because of this.")
LOOKS = {
    "ok": Badge("Ok", "circle-check", Severity.OK),
    "failed": Badge(
        "Failed",
        "triangle-alert",
        Severity.WARN,
        "The connector can be created, but will have this problem.",
    ),
    "unknown": Badge("Unknown", "circle-question-mark", Severity.UNKNOWN, "This could not be checked."),
}
OUTCOMES = {
    "written": Badge("Written", "circle-check", Severity.OK),
    "changed": Badge("Changed", "pencil", Severity.MOTION),
    "unchanged": Badge("Unchanged", "equal", Severity.REST),
    "dropped": Badge(
        "Dropped", "circle-minus", Severity.REST, "It does not reach Kafka; its source offset is committed."
    ),
    "failed": Badge("Failed", "circle-x", Severity.BAD),
}
ENDED = {
    "records": "as many as were asked for",
    "bytes": "as many as fit into 1 MB",
    "time": "as many as arrived in time",
    "nothing": "all that exist now",
}
_JSON_VALUES = ("object", "struct", "list", "number", "boolean")
_FORMATS = {
    "CONNECT": "Kafka Connect's JSON, in each record",
    "AVRO": "Avro, in the registry",
    "JSON": "JSON Schema, in the registry",
    "PROTOBUF": "Protobuf, in the registry",
}
"""Formats of schemas, in words, with where they are."""


def _look(check: Mapping[str, Any]) -> Badge:
    return REFUSES if check.get("decides") else LOOKS.get(check["result"], LOOKS["unknown"])


def checks_context(complete: dict[str, str], by: Principal) -> dict[str, Any]:
    """Return the template's context for the checks of a complete configuration. Raises `Refusal`."""
    checks = checks_of(complete, by)
    troubles = sum(check["result"] != "ok" for check in checks)
    rows = [(_look(check), check, explain_check(check["name"])) for check in checks]
    return {"checks": rows, "troubles": troubles, "passed": len(checks) - troubles}


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def preflight(request: HttpRequest) -> HttpResponse:
    """Run the checks on the form's configuration, or on pasted text."""

    def context() -> dict[str, Any]:
        config = complete(request, read_posted(request))
        with probes.audit(request, principal_of(request), probes.PREFLIGHT, config):
            return checks_context(config, principal_of(request))

    return _part(request, "preflight", context)


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """Show the first records that the form's configuration would read. `begin=fresh`: from the source's beginning."""

    def context() -> dict[str, Any]:
        config = complete(request, read_posted(request))
        fresh = request.POST.get("begin") == "fresh"
        may = principal_of(request).may
        java = may(Verb.JAVA_PLUGINS, config["name"])
        with probes.audit(request, principal_of(request), probes.PREVIEW, config):
            answer = previews.preview(config, fresh=fresh, java=java, may_see=lambda name: may(Verb.VIEW, name))
        return {
            "found": answer,
            "rows": [_row(record) for record in answer["records"]],
            "schemas": _list_schemas(answer["records"]),
            "ended": ENDED[answer["ended"]],
        }

    return _part(request, "new_preview", context)


@requires(POST=somewhere(Verb.EDIT))
@require_POST
def trial(request: HttpRequest) -> HttpResponse:
    """Run `sample`, a record as JSON, through each transform and the converters."""

    def context() -> dict[str, Any]:
        config = complete(request, read_posted(request))
        text = str(request.POST.get("sample", ""))
        if not text.strip():
            raise bad_request('A sample is needed, such as {"topic": "t", "key": null, "value": {"id": 1}}.')
        record = object_of(plain(read(text.encode("utf-8", "replace"))), "The sample record")
        java = principal_of(request).may(Verb.JAVA_PLUGINS, config["name"])
        with probes.audit(request, principal_of(request), probes.TRIAL, config):
            answer = previews.try_transforms(config, record, java=java)
        return {"row": _row(answer)}

    return _part(request, "new_trial", context)


def _part(request: HttpRequest, part: str, build: Callable[[], dict[str, Any]]) -> HttpResponse:
    try:
        context = build()
    except (ConnectError, Refusal) as error:
        context = {"problem": error.message}
    return render(request, f"ringfence/parts/{part}.html", context)


def _row(preview: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of one record: its steps, its source offset as text, the record as a sample, and what it shows
    on one line.
    """
    steps = [{**step, "look": OUTCOMES[step["outcome"]]} for step in preview["steps"]]
    offset = preview.get("source_offset")
    return {
        **preview,
        "look": OUTCOMES[preview["outcome"]],
        "steps": steps,
        "offset": None if offset is None else json.dumps(offset, ensure_ascii=False),
        "sample": _sample(preview["before"]),
        "shown": _write_line(preview["written"]),
    }


def _write_line(output: Mapping[str, Any] | None) -> str:
    value = (output or {}).get("value")
    return str(value.get("payload", value)["text"]) if value else "a tombstone"


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A schema of the previewed records. part: key or value; text: indented where it is JSON; cut: as of a value."""

    topic: str
    part: str
    format: str
    text: str
    cut: int


def _list_schemas(records: Iterable[Mapping[str, Any]]) -> list[RecordSchema]:
    """Return each schema once."""
    schemas: dict[RecordSchema, None] = {}
    for output in (record["written"] for record in records if record["written"]):
        for part in ("key", "value"):
            schema = (output[part] or {}).get("schema")
            if schema:
                words = _FORMATS.get(schema["format"], schema["format"])
                text = schema["text"] if schema["cut"] else _indent(schema["text"])
                schemas[RecordSchema(output["topic"], part, words, text, schema["cut"])] = None
    return list(schemas)


def _indent(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:  # Protobuf's
        return text


def _sample(record: Mapping[str, Any]) -> str:
    """Return the record as input for a trial; "" if parts of it are left out."""
    values = {}
    for part in ("key", "value"):
        content = record[part]
        if content is not None and content["cut"]:
            return ""
        values[part] = None if content is None else _value(content)
    return json.dumps({"topic": record["topic"], **values}, indent=2, ensure_ascii=False)


def _value(content: Mapping[str, Any]) -> object:
    if content["type"] not in _JSON_VALUES:
        return content["text"]
    try:
        return json.loads(content["text"])
    except ValueError:
        return content["text"]
