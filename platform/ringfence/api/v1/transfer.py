"""`/api/v1/export` and `/api/v1/import`: configurations as JSON, YAML or properties.

Secrets are exported as masks. On import, a mask keeps the value that is stored under the connector's name. Properties
contain several connectors one after another, each beginning with its `name`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from django.http import HttpResponse, HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_writes
from ringfence.api.base import config_of, object_of, read, text_of
from ringfence.api.v1.base import V1View
from ringfence.api.v1.bulk import ResultsShape
from ringfence.api.v1.request_fields import FlagField, OneOfField, QueryShape, RequestShape, StringField
from ringfence.bulk import MOST, each, together
from ringfence.connectors.sdk import properties
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker, unmask
from ringfence.projection.models import Connector
from ringfence.yaml_documents import MalformedYaml, read_documents

MOST_BYTES = 256 * 1024
"""Bytes of one import, in UTF-8."""

FORMATS = {"json": "application/json", "yaml": "application/yaml", "properties": "text/plain; charset=utf-8"}

Settings = Mapping[str, str]

_UNCHANGED: Final = "unchanged"


def write(configs: list[dict[str, str]], form: str) -> str:
    """Return the configurations as a string that `parse` can read."""
    if form == "json":
        return json.dumps([{"name": config["name"], "config": config} for config in configs], indent=2) + "\n"
    if form == "yaml":
        entries = [{"name": config["name"], "config": config} for config in configs]
        return str(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True))
    return "\n".join(_properties(config) for config in configs)


def _properties(config: Settings) -> str:
    return properties.write({key: config[key] for key in ["name", *sorted(config.keys() - {"name"})]})


def parse(text: str, form: str) -> list[dict[str, str]]:
    """Return the configurations of a string, each including its name. Raises a 400 with a reason for one that cannot be
    read.
    """
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise bad_request(f"The text has more than {MOST_BYTES:,} bytes: send its connectors in several parts.")
    if form == "properties":
        try:
            values: object = properties.read_several(text)
        except properties.MalformedLine as error:
            raise bad_request(f"The properties cannot be read: {error}.") from error
    elif form == "yaml":
        try:
            documents = read_documents(text)
        except MalformedYaml as error:
            raise bad_request(f"This YAML cannot be read: {error}.") from error
        if len(documents) > 1:
            raise bad_request("There are several YAML documents: write their connectors as one list.")
        values = documents[0] if documents else None
    else:
        values = read(text.encode())
    entries = values if isinstance(values, list) else [values]
    if not 0 < len(entries) <= MOST:
        raise bad_request(f"1 to {MOST} connectors are expected.")
    configs = [_name_of(object_of(value, "Each connector")) for value in entries]
    names = [config["name"] for config in configs]
    if len(set(names)) < len(names):
        raise bad_request("A connector is listed twice.")
    return configs


def _name_of(value: dict[str, object]) -> dict[str, str]:
    wrapped = isinstance(value.get("config"), dict)
    config = config_of(value["config"] if wrapped else value)
    name = text_of(value.get("name", config.get("name", "")), "name")
    return connector_writes.with_name(name.strip(), config)


class ExportShape(serializers.Serializer[Any]):
    """As JSON: a list of these; the same in YAML, and flat in properties."""

    name = serializers.CharField()
    config = serializers.DictField(child=serializers.CharField())


class ExportQueryShape(QueryShape):
    format = OneOfField(choices=list(FORMATS), default="json")
    connector = StringField(required=False, allow_blank=True, trim_whitespace=False)


class Export(V1View):
    """`format`: json, yaml or properties; `connector`: one name, by default all whose configuration you may read."""

    access = {"GET": somewhere(Verb.VIEW_CONFIG)}
    shape = ExportShape
    several = True
    forms = ("application/yaml", "text/plain")
    queries = {"GET": ExportQueryShape}

    def get(self, request: Request) -> HttpResponseBase:
        query = self.parse_query()
        rows = Connector.objects.filter(self.principal.query(Verb.VIEW_CONFIG), known=True).order_by("name")
        if "connector" in query:
            self.authorise(Verb.VIEW_CONFIG, query["connector"])
            rows = rows.filter(name=query["connector"].replace("\x00", ""))
        connectors = list(rows)
        masker = Masker({row.class_name for row in connectors})
        configs = [{**masker.mask(row.settings), "name": row.name} for row in connectors]
        return HttpResponse(write(configs, query["format"]), content_type=FORMATS[query["format"]])


class ImportShape(RequestShape):
    """`text`: the content of an export. `dry_run`: validate, and report what would be done."""

    format = OneOfField(choices=list(FORMATS), default="json")
    text = StringField(trim_whitespace=False)
    dry_run = FlagField(default=False)


class _Importing:
    """configs: by name, perhaps with masks. by: whose import it is."""

    def __init__(self, configs: Mapping[str, dict[str, str]], by: Principal) -> None:
        self._configs = configs
        self._by = by

    def rehearse(self, name: str, _seconds: float) -> str:
        """Validate one, and return what would be done."""
        stored = connector_writes.read_stored_settings(name)
        config = unmask(self._configs[name], stored)
        if config == stored:
            return _UNCHANGED
        connector_writes.validate(config, self._by)
        return "would be changed" if stored else "would be created"

    def carry_out(self, names: Sequence[str], seconds: float) -> Mapping[str, str | Refusal | ConnectError]:
        """Import several by one command, and return what was done, or why not."""
        outcomes: dict[str, str | Refusal | ConnectError] = {}
        changes: dict[str, dict[str, str]] = {}
        for name in names:
            stored = connector_writes.read_stored_settings(name)
            try:
                config = unmask(self._configs[name], stored)
            except ConnectError as error:
                outcomes[name] = error
                continue
            if config == stored:
                outcomes[name] = _UNCHANGED
            else:
                changes[name] = config
        for name, saved in connector_writes.configure_together(changes, self._by, seconds).items():
            if isinstance(saved, connector_writes.Saved):
                outcomes[name] = "created" if saved.created else "changed"
            else:
                outcomes[name] = saved
        return outcomes


class Import(V1View):
    """Create missing connectors, and change existing ones, with a result for each. Requires `edit` on each of them."""

    access = {"POST": somewhere(Verb.EDIT).writing()}
    shape = ResultsShape
    takes = {"POST": ImportShape}

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        configs = {config["name"]: config for config in parse(fields["text"], fields["format"])}

        importing = _Importing(configs, self.principal)
        if fields["dry_run"]:
            results = each(self.http_request, configs, [Verb.EDIT], importing.rehearse)
        else:
            results = together(self.http_request, configs, [Verb.EDIT], importing.carry_out)
        return Response({"results": [result.fields() for result in results]})
