"""`/api/v1/plugin-installations`: plugins for all workers, by Maven coordinates, as a Python package or as a file."""

import base64
import binascii
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import everywhere, somewhere
from ringfence.access.principal import Verb
from ringfence.api import plugin_installations as installations
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, equal
from ringfence.api.v1.request_fields import IntegerField, RequestShape, StringField
from ringfence.audit.trail import record_change
from ringfence.history.models import PluginInstallation
from ringfence.history.plugins import versions_by_worker
from ringfence.http.errors import bad_request

_INSTALLER = everywhere(Verb.INSTALL_PLUGINS)


class OnWorkerShape(serializers.Serializer[Any]):
    """`connectors`: version by class; `files`: SHA-256 of each jar or wheel by name; both are empty
    until it is done.
    """

    worker = serializers.CharField()
    state = serializers.ChoiceField(choices=["waiting", "running", "done", "failed"])
    error = serializers.CharField(allow_blank=True)
    folder = serializers.CharField(allow_blank=True)
    connectors = serializers.DictField(child=serializers.CharField())
    files = serializers.DictField(child=serializers.CharField())
    ended_ms = serializers.IntegerField(allow_null=True)


class InstallationShape(serializers.Serializer[Any]):
    """`differs`: workers have different files. `size`, `received`: bytes of the file, 0 for a name."""

    id = serializers.IntegerField()
    plugin = serializers.CharField()
    state = serializers.ChoiceField(choices=["receiving", "running", "done", "failed"])
    size = serializers.IntegerField()
    received = serializers.IntegerField()
    sha256 = serializers.CharField(allow_blank=True)
    user = serializers.CharField(allow_blank=True)
    started_ms = serializers.IntegerField()
    workers = OnWorkerShape(many=True)
    differs = serializers.BooleanField()


class InstallShape(RequestShape):
    """`plugin`: group:artifact:version (Maven), name==version (Python), or a file's name with its `size`, `sha256`."""

    plugin = StringField(max_length=300)
    size = IntegerField(required=False, min_value=1, max_value=installations.MOST_BYTES)
    sha256 = serializers.RegexField(r"^[0-9a-f]{64}\Z", required=False)


class PieceShape(RequestShape):
    """`content`: at most 2 MiB in Base64, the file's bytes from `start` on."""

    start = IntegerField(min_value=0)
    content = StringField()


class PluginInstallations(ListView):
    """GET: the requested installations, newest first. POST: request another; a file's bytes follow in pieces."""

    access = {"GET": _INSTALLER, "POST": _INSTALLER.writing()}
    shape = InstallationShape
    takes = {"POST": InstallShape}
    codes = {"POST": 201}
    filters = {"plugin": equal("plugin")}
    orders = {"started_ms": "started_ms", "plugin": "plugin"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return PluginInstallation.objects.all()

    def serialize(self, rows: Any) -> list[dict[str, Any]]:
        return installations.serialize(rows)

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        if ("size" in fields) != ("sha256" in fields):
            raise bad_request("A file needs both its size and its sha256; a name needs neither.")
        row = installations.begin(
            fields["plugin"], self.user_name, size=fields.get("size", 0), sha256=fields.get("sha256", "")
        )
        facts = {"plugin": row.plugin, "sha256": row.sha256}
        record_change(self.http_request, before=None, after=facts, action="install plugin")
        return Response(_answer(row), status=201)


class InstallationOf(V1View):
    """DELETE cancels it: workers that join later do not install it. Existing installations stay."""

    access = {"GET": _INSTALLER, "DELETE": _INSTALLER.writing()}
    shape = InstallationShape
    codes = {"DELETE": 204}

    def get(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        return Response(_answer(installations.find(number)))

    def delete(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = installations.find(number)
        facts = {"plugin": row.plugin, "sha256": row.sha256}
        record_change(self.http_request, before=facts, after=None, action="cancel plugin installation")
        row.delete()
        return Response(status=204)


class RetryInstallation(V1View):
    """Retry on the workers where it failed."""

    access = {"POST": _INSTALLER.writing()}
    shape = InstallationShape
    codes = {"POST": 202}

    def post(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        row = installations.find(number)
        facts = {"plugin": row.plugin, "sha256": row.sha256}
        record_change(self.http_request, before=None, after=facts, action="retry plugin installation")
        installations.retry(row)
        return Response(_answer(row), status=202)


class PluginBytes(V1View):
    """The next piece of a file. After the last one, workers begin to install it.

    It leaves no audit entry: the entry of its beginning contains the file's SHA-256.
    """

    access = {"POST": _INSTALLER}
    shape = InstallationShape
    takes = {"POST": PieceShape}

    def post(self, request: Request, number: int) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        try:
            data = base64.b64decode(fields["content"], validate=True)
        except (binascii.Error, ValueError):
            raise bad_request("content must be Base64.") from None
        row = installations.add_piece(installations.find(number), fields["start"], data)
        return Response(_answer(row))


class WorkerVersionsShape(serializers.Serializer[Any]):
    """`plugins`: the installed versions of each class, the newest first."""

    worker = serializers.CharField()
    plugins = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))


class PluginVersions(V1View):
    """The plugins of each live worker."""

    access = {"GET": somewhere(Verb.EDIT)}
    shape = WorkerVersionsShape
    several = True

    def get(self, request: Request) -> Response:
        self.parse_parameters()
        versions = versions_by_worker()
        return Response([{"worker": worker, "plugins": plugins} for worker, plugins in versions.items()])


def _answer(row: PluginInstallation) -> dict[str, Any]:
    return installations.serialize([row])[0]
