"""`…/config` with an ETag, its earlier versions (list, difference, rollback), and deleted connectors.

The ETag is the offset of the configuration's record in the config topic, which is the same in every web process.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_reads, connector_writes
from ringfence.api.base import config_of
from ringfence.api.v1.base import ListView, V1View, contains, since, until
from ringfence.api.v1.request_fields import IntegerField, OneOfField, QueryShape, RequestShape, StringField
from ringfence.dispatch import Refusal
from ringfence.history.models import ConfigVersion
from ringfence.history.versions import difference, list_deleted
from ringfence.http.errors import ConnectError, bad_request, not_found
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, find_connector

_CHANGED = "The configuration has changed ({now}): read it again, and repeat the request with its ETag."


def etag_of(row: Connector) -> str:
    return f'"{row.config_offset}"'


def _tags(header: str) -> list[str]:
    return [tag.strip() for tag in header.split(",")]


def parse_expected_offset(request: Request, row: Connector | None) -> int | None:
    """Return the config offset that `If-Match` and `If-None-Match` allow to replace; None if neither is sent.

    Raises a 412 if the stored configuration is a different one.
    """
    match, none_match = request.headers.get("If-Match"), request.headers.get("If-None-Match")
    if none_match is not None and row is not None and ("*" in _tags(none_match) or etag_of(row) in _tags(none_match)):
        raise ConnectError(412, f"The connector exists, with the ETag {etag_of(row)}: nothing was changed.")
    if match is None:
        return None
    if row is None:
        raise ConnectError(412, "There is no such connector, so no ETag of it can match: nothing was changed.")
    if "*" not in _tags(match) and etag_of(row) not in _tags(match):
        raise ConnectError(412, _CHANGED.format(now=etag_of(row)))
    return row.config_offset


def configure(name: str, config: Mapping[str, str], by: Principal, expected: int | None) -> bool:
    """Like `writing.configure`, but raises the leader's "changed in the meantime" as a 412."""
    try:
        return connector_writes.configure(name, config, by, expected).created
    except Refusal as refused:
        row = find_connector(name)
        if expected is not None and refused.status == 409 and row is not None and row.config_offset != expected:
            raise ConnectError(412, _CHANGED.format(now=etag_of(row))) from refused
        raise


class ConfigShape(serializers.Serializer[Any]):
    """Flat: every value is a string. Secrets are masked, and a mask that is sent back keeps the stored value."""

    name = serializers.CharField()


class ConfigRequestShape(RequestShape):
    """Flat: every value is a string, a number or a boolean. `name`: as in the path, or left out."""

    name = StringField(required=False)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        return config_of(data)


class Config(V1View):
    access = {"GET": on_connector(Verb.VIEW_CONFIG), "PUT": on_connector(Verb.EDIT).writing()}
    shape = ConfigShape
    takes = {"PUT": ConfigRequestShape}
    header_names = {"GET": ["If-None-Match"], "PUT": ["If-Match", "If-None-Match"]}
    more_codes = {"GET": [304]}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        row = connector_reads.connector(name)
        headers = {"ETag": etag_of(row)}
        if etag_of(row) in _tags(request.headers.get("If-None-Match", "")):
            return Response(status=304, headers=headers)
        return Response(Masker([row.class_name]).mask(row.settings), headers=headers)

    def put(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        config = connector_writes.with_name(name, self.parse_body())  # an invalid body is a 400, whatever is stored
        expected = parse_expected_offset(request, find_connector(name))
        created = configure(name, config, self.principal, expected)
        row = connector_reads.connector(name)
        body = connector_reads.info(row.name, row.settings, (), Masker([row.class_name]), self.principal)["config"]
        return Response(body, status=201 if created else 200, headers={"ETag": etag_of(row)})


class VersionShape(serializers.Serializer[Any]):
    """`user`: who wrote it; "" if another tool wrote it, or there was no login."""

    number = serializers.IntegerField()
    time_ms = serializers.IntegerField()
    user = serializers.CharField(allow_blank=True)
    config_offset = serializers.IntegerField()
    current = serializers.BooleanField()
    config = serializers.DictField(child=serializers.CharField(allow_blank=True))


def _version(name: str, number: int) -> ConfigVersion:
    row = ConfigVersion.objects.filter(connector=name, number=min(number, 2**31 - 1)).first()
    if row is None:
        raise not_found(f"Connector {name} has no version {number} of its configuration")
    return row


def _serialize(row: ConfigVersion, connector: Connector) -> dict[str, Any]:
    config = row.settings
    return {
        **{field: getattr(row, field) for field in ("number", "time_ms", "user", "config_offset")},
        "current": config == connector.settings,
        "config": Masker([config.get("connector.class", "")]).mask(config),
    }


def _find_or_deleted(name: str) -> Connector:
    """Return the connector, or an empty one for a deleted connector with kept versions. Raises a 404 if
    there is neither.
    """
    row = find_connector(name)
    if row is None and ConfigVersion.objects.filter(connector=name).exists():
        return Connector(name=name)
    return row or connector_reads.connector(name)


class Versions(ListView):
    """Every configuration that the connector has had, newest first, from any tool; also of a deleted connector."""

    access = {"GET": on_connector(Verb.VIEW_CONFIG)}
    shape = VersionShape
    filters = {"since": since("time_ms"), "until": until("time_ms")}
    orders = {"number": "number", "time_ms": "time_ms"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        self._connector = _find_or_deleted(path["name"])
        return ConfigVersion.objects.filter(connector=path["name"])

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [_serialize(row, self._connector) for row in rows]


class Version(V1View):
    access = {"GET": on_connector(Verb.VIEW_CONFIG)}
    shape = VersionShape

    def get(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        connector = _find_or_deleted(name)
        return Response(VersionShape(_serialize(_version(name, number), connector)).data)


class ChangeShape(serializers.Serializer[Any]):
    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)


class DiffShape(serializers.Serializer[Any]):
    """Secrets are compared in clear text, and shown masked."""

    before = serializers.IntegerField()
    after = serializers.IntegerField()
    added = serializers.DictField(child=serializers.CharField(allow_blank=True))
    removed = serializers.DictField(child=serializers.CharField(allow_blank=True))
    changed = serializers.DictField(child=ChangeShape())


class DiffQueryShape(QueryShape):
    to = IntegerField(required=False, min_value=1, max_value=2**63 - 1)


class VersionDiff(V1View):
    """The difference from this version to another: `to`, by default the newest."""

    access = {"GET": on_connector(Verb.VIEW_CONFIG)}
    shape = DiffShape
    queries = {"GET": DiffQueryShape}

    def get(self, request: Request, name: str, number: int) -> Response:
        query = self.parse_query()
        _find_or_deleted(name)
        before = _version(name, number)
        newest = ConfigVersion.objects.filter(connector=name).order_by("number").last()
        assert newest is not None
        after = _version(name, query["to"]) if "to" in query else newest
        old, new = before.settings, after.settings
        masker = Masker({config.get("connector.class", "") for config in (old, new)})
        # Masked as a whole: which settings are secret depends on the plugin class.
        shown_old, shown_new = masker.mask(old), masker.mask(new)
        diff = difference(old, new)
        body = {
            "before": before.number,
            "after": after.number,
            "added": {key: shown_new[key] for key in diff.added},
            "removed": {key: shown_old[key] for key in diff.removed},
            "changed": {key: {"before": shown_old[key], "after": shown_new[key]} for key in diff.changed},
        }
        return Response(DiffShape(body).data)


class RollbackShape(RequestShape):
    """`initial_state`: only for a deleted connector, which is created again; RUNNING, PAUSED or STOPPED."""

    initial_state = OneOfField(choices=list(connector_writes.INITIAL_STATES), required=False)


class Rollback(V1View):
    """Restore this version's configuration, with its secrets; `If-Match` as for the configuration itself.

    A deleted connector is created again, and continues from the source offsets that were kept.
    """

    access = {"POST": on_connector(Verb.EDIT).writing()}
    shape = VersionShape
    takes = {"POST": RollbackShape}
    header_names = {"POST": ["If-Match"]}

    def post(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        state = self.parse_body(optional=True).get("initial_state")
        row = find_connector(name)
        if state is not None and row is not None:
            raise bad_request("initial_state is for a deleted connector: leave it out.")
        _find_or_deleted(name)
        version = _version(name, number)
        expected = parse_expected_offset(request, row)
        if row is None:
            connector_writes.create(name, version.settings, state or "RUNNING", self.principal)
        else:
            configure(name, version.settings, self.principal, row.config_offset if expected is None else expected)
        newest = ConfigVersion.objects.filter(connector=name).order_by("number").last()
        connector = connector_reads.connector(name)
        body = VersionShape(_serialize(newest or version, connector)).data
        if not self.principal.may(Verb.VIEW_CONFIG, name):
            body["config"] = {}
        return Response(body, headers={"ETag": etag_of(connector)})


class DeletedShape(serializers.Serializer[Any]):
    """`version`: the newest version's number, for `…/versions/<version>/rollback`; `time_ms`: its time."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    time_ms = serializers.IntegerField()
    class_name = serializers.CharField(allow_blank=True)


class DeletedConnectors(ListView):
    """The deleted connectors with kept versions."""

    access = {"GET": somewhere(Verb.VIEW_CONFIG)}
    shape = DeletedShape
    filters = {"name": contains("connector")}
    orders = {"name": "connector", "time_ms": "time_ms"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        return list_deleted(self.principal)

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": row.connector,
                "version": row.number,
                "time_ms": row.time_ms,
                "class_name": row.settings.get("connector.class", ""),
            }
            for row in rows
        ]
