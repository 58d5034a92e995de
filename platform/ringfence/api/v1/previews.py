"""`POST /api/v1/preview` and `/api/v1/transforms/trial`, also for the pages: what a configuration would read, and how
it converts a record. Nothing is created, written or committed.

These require the permission to edit the connector, because plugin code runs on a worker, with access to everything that
the worker can reach.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_reads, connector_writes
from ringfence.api.base import check_size
from ringfence.api.v1.base import V1View
from ringfence.api.v1.connectors import Connectors, ConnectorShape, as_known
from ringfence.api.v1.offsets import create_at
from ringfence.api.v1.request_fields import (
    FlagField,
    IntegerField,
    JsonField,
    ListField,
    NumberField,
    OffsetsField,
    OneOfField,
    RequestShape,
    SettingsField,
    StringField,
)
from ringfence.audit import probes
from ringfence.engine.questions import Preview as PreviewQuestion
from ringfence.engine.questions import TryTransforms
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker, unmask

RECORDS, MOST_RECORDS = 10, 50
SECONDS, MOST_SECONDS = 5.0, 15.0
MOST_BYTES = 1_000_000

Settings = Mapping[str, str]


def preview(
    config: Settings,
    *,
    records: int = RECORDS,
    seconds: float = SECONDS,
    fresh: bool = False,
    java: bool,
    may_see: Callable[[str], bool] = lambda _: True,
) -> dict[str, Any]:
    """Return `tasks`, `records`, `polls`, `ended`, `note`, `took_ms`, `from`; see `engine.queries.previews`. Nothing is
    committed.

    config: complete, with its name and without masks. Raises a 409 while a connector that may run reads the same
    source, with its name if `may_see` allows it. java: whether Java plugins are permitted.
    """
    if not 1 <= records <= MOST_RECORDS:
        raise bad_request(f"records must be from 1 to {MOST_RECORDS}.")
    if not 0 < seconds <= MOST_SECONDS:
        raise bad_request(f"seconds must be above 0 and at most {MOST_SECONDS:g}.")
    masker = _masker(config)
    bounds = {"records": records, "bytes": MOST_BYTES, "seconds": seconds}
    answer = dispatch.ask(PreviewQuestion(config, _secret(masker, config), bounds, fresh, java), seconds + 35.0)
    if busy := answer.get("busy"):
        raise ConnectError(409, _busy(str(busy), config["name"], may_see))
    return cast(dict[str, Any], _scrub(answer, lambda text: masker.scrub(text, config)))


def try_transforms(config: Settings, record: Mapping[str, Any], *, java: bool) -> dict[str, Any]:
    """Return `before`, `steps`, `outcome`, `written`, `error`; see `engine.plugins.preview`.

    java: as for `preview`.
    """
    masker = _masker(config)
    answer = dispatch.ask(TryTransforms(config, record, _secret(masker, config), java))
    return cast(dict[str, Any], _scrub(answer, lambda text: masker.scrub(text, config)))


def _masker(config: Settings) -> Masker:
    check_size(config)
    class_name = config.get("connector.class", "").strip()
    if not class_name:
        raise bad_request("connector.class is required: it names the plugin to ask.")
    return Masker([class_name])


def _secret(masker: Masker, config: Settings) -> list[str]:
    """Return the settings whose values the plugin process hides, in addition to the plugin's own passwords."""
    class_name = config["connector.class"].strip()
    return sorted(key for key in config if masker.secret(class_name, key))


def _busy(rival: str, name: str, may_see: Callable[[str], bool]) -> str:
    if rival == name:
        return (
            f"Connector {name} runs, or may start: a preview would read its source beside its tasks. Stop it, try "
            "again, then resume it. Its latest records are in its topics."
        )
    who = f"Connector {rival}" if may_see(rival) else "Another connector"
    return (
        f"{who} reads the same source and is not stopped: a preview would compete with its tasks. Stop it, try again, "
        "then resume it; or preview other settings."
    )


def _scrub(value: object, scrub: Callable[[str], str]) -> object:
    """Hide secrets that only the settings' names reveal. The plugin process has already hidden all that it knows."""
    match value:
        case str():
            return scrub(value)
        case dict():
            return {key: _scrub(item, scrub) for key, item in value.items()}
        case list():
            return [_scrub(item, scrub) for item in value]
        case _:
            return value


class CreateShape(RequestShape):
    """`initial_state`: RUNNING, PAUSED or STOPPED; `initial_offsets` requires the permission `offsets`, too."""

    name = StringField()
    config = SettingsField()
    initial_state = OneOfField(choices=list(connector_writes.INITIAL_STATES), default="RUNNING")
    initial_offsets = OffsetsField(required=False)


class ConnectorsOrNew(Connectors):
    """GET lists connectors, POST creates one."""

    access = {"GET": somewhere(Verb.VIEW), "POST": somewhere(Verb.EDIT).writing()}
    takes = {"POST": CreateShape}
    answers = {"POST": ConnectorShape}
    codes = {"POST": 201}

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        name, config, state = fields["name"], fields["config"], fields["initial_state"]
        self.authorise(Verb.EDIT, name)
        if "initial_offsets" in fields:
            self.authorise(Verb.OFFSETS, name)
            create_at(name, config, fields["initial_offsets"], state, self.principal)
        else:
            connector_writes.create(name, config, state, self.principal)
        (row,) = as_known([connector_reads.connector(name)])
        location = request.build_absolute_uri(f"/api/v1/connectors/{row.path}")
        return Response(ConnectorShape(row).data, status=201, headers={"Location": location})


class PreviewAskedShape(RequestShape):
    """`config` with its `name`. `fresh`: from the source's beginning, otherwise after the offsets under that name."""

    config = SettingsField()
    records = IntegerField(default=RECORDS, min_value=1, max_value=MOST_RECORDS)
    seconds = NumberField(default=SECONDS, min_value=0.1, max_value=MOST_SECONDS)
    fresh = FlagField(default=False)


class ShownShape(serializers.Serializer[Any]):
    """A key, a value or a header: text, bytes (hexadecimal unless UTF-8), number, boolean, object, list."""

    type = serializers.CharField()
    text = serializers.CharField(allow_blank=True)
    cut = serializers.IntegerField(help_text="How many characters are left out.")


class RecordShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    partition = serializers.IntegerField(allow_null=True)
    timestamp = serializers.IntegerField(allow_null=True)
    key = ShownShape(allow_null=True)
    value = ShownShape(allow_null=True)
    headers = serializers.ListField(child=serializers.ListField(), help_text="Pairs of a name and a value as above.")


class StepShape(serializers.Serializer[Any]):
    """One transform. `record` is its result, null if the transform dropped it or failed."""

    name = serializers.CharField()
    type = serializers.CharField()
    outcome = serializers.ChoiceField(choices=["changed", "unchanged", "dropped", "failed"])
    record = RecordShape(allow_null=True)
    error = serializers.CharField(allow_blank=True)


class TrialShape(serializers.Serializer[Any]):
    """`written`: the converted record, as Kafka would store it."""

    before = RecordShape()
    steps = StepShape(many=True)
    outcome = serializers.ChoiceField(choices=["written", "dropped", "failed"])
    written = RecordShape(allow_null=True)
    error = serializers.CharField(allow_blank=True)


class PreviewedShape(TrialShape):
    """`source_offset` is null inside a batch that has one offset for all of its records."""

    source_partition = serializers.DictField()
    source_offset = serializers.DictField(allow_null=True)


class BeganShape(serializers.Serializer[Any]):
    partition = serializers.DictField()
    offset = serializers.DictField(allow_null=True)


class PreviewShape(serializers.Serializer[Any]):
    """The records of the first of `tasks` tasks. `ended`: by records, bytes or time, or nothing if there
    are no more.
    """

    tasks = serializers.IntegerField()
    polls = serializers.IntegerField()
    ended = serializers.ChoiceField(choices=["records", "bytes", "time", "nothing"])
    note = serializers.CharField(allow_blank=True)
    took_ms = serializers.IntegerField()
    beside = serializers.BooleanField(help_text="Tasks that may run read the same source.")
    began = BeganShape(many=True, help_text="`from`: the committed offsets that it began after.")
    records = PreviewedShape(many=True)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields["from"] = fields.pop("began")  # a Python keyword
        return fields


class SampleShape(RequestShape):
    """`headers`: pairs of a name and a value."""

    topic = StringField(trim_whitespace=False)
    key = JsonField(required=False, allow_null=True)
    value = JsonField(required=False, allow_null=True)
    headers = ListField(child=ListField(child=JsonField(allow_null=True)), required=False, allow_null=True)
    timestamp = IntegerField(required=False, allow_null=True, min_value=0)
    partition = IntegerField(required=False, allow_null=True, min_value=0)


class TrialAskedShape(RequestShape):
    config = SettingsField()
    record = SampleShape()


class _OfSettings(V1View):
    """A request about the configuration in the body."""

    def complete(self, config: dict[str, str]) -> dict[str, str]:
        """Return the configuration without masks. Requires `edit` on its name, which must be present."""
        name = config.get("name", "").strip()
        complete = connector_writes.with_name(name, config)
        self.authorise(Verb.EDIT, name)
        self.authorise_masks(complete)
        return unmask(complete, connector_writes.read_stored_settings(name))


class Preview(_OfSettings):
    """The first records, polled in a plugin process, without writing or committing.

    Refused beside running tasks, unless it cannot interfere with them.
    """

    access = {"POST": somewhere(Verb.EDIT)}
    shape = PreviewShape
    takes = {"POST": PreviewAskedShape}

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        config = self.complete(fields["config"])
        with probes.audit(self.http_request, self.principal, probes.PREVIEW, config):
            answer = preview(
                config,
                records=fields["records"],
                seconds=fields["seconds"],
                fresh=fields["fresh"],
                java=self.principal.may(Verb.JAVA_PLUGINS, config["name"]),
                may_see=lambda name: self.principal.may(Verb.VIEW, name),
            )
        return Response(answer)


class Trial(_OfSettings):
    """One record through the transforms and converters, with the result of each."""

    access = {"POST": somewhere(Verb.EDIT)}
    shape = TrialShape
    takes = {"POST": TrialAskedShape}

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        config = self.complete(fields["config"])
        java = self.principal.may(Verb.JAVA_PLUGINS, config["name"])
        with probes.audit(self.http_request, self.principal, probes.TRIAL, config):
            answer = try_transforms(config, fields["record"], java=java)
        return Response(answer)
