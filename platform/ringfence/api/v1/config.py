"""`…/config` with an ETag.

The ETag is the offset of the configuration's record in the config topic, which is the same in every web process.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.principal import Principal, Verb
from ringfence.access.routes import on_connector
from ringfence.api import connector_reads, connector_writes
from ringfence.api.jsonbody import config_of
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import RequestShape, StringField
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError
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
