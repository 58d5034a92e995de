"""`/api/v1/bulk/…`: one action on many connectors, with a result for each; none holds up the others."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import somewhere
from ringfence.access.verbs import Verb
from ringfence.api.v1.base import V1View
from ringfence.bulk import MOST, command, each
from ringfence.http.errors import bad_request


class ResultShape(serializers.Serializer[Any]):
    """`status`: what the request for this one alone would have been answered."""

    connector = serializers.CharField()
    status = serializers.IntegerField()
    ok = serializers.BooleanField()
    message = serializers.CharField()


class ResultsShape(serializers.Serializer[Any]):
    results = ResultShape(many=True)


class NamesShape(serializers.Serializer[Any]):
    connectors = serializers.ListField(child=serializers.CharField())


class RestartNamesShape(NamesShape):
    only_failed = serializers.BooleanField(required=False)


class Bulk(V1View):
    """`connectors`: up to 1,000 names. The answer is a 200 with a result for each, in the same order."""

    shape = ResultsShape
    takes = {"POST": NamesShape}
    kind: ClassVar[str]
    verb: ClassVar[Verb]

    def body_of(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The command's body."""
        return {}

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_fields(*self.takes["POST"]().fields)
        names = fields.get("connectors")
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise bad_request("connectors must be a list of names.")
        if not 0 < len(names) <= MOST or len(set(names)) < len(names):
            raise bad_request(f"connectors must hold 1 to {MOST} names, each once.")
        work = command(self.kind, self.body_of(fields), self.user_name)
        results = each(self.request._request, names, [self.verb], work)
        return Response({"results": [result.fields() for result in results]})


class BulkPause(Bulk):
    access = {"POST": somewhere(Verb.OPERATE).writing()}
    kind, verb = "pause", Verb.OPERATE


class BulkResume(Bulk):
    access = {"POST": somewhere(Verb.OPERATE).writing()}
    kind, verb = "resume", Verb.OPERATE


class BulkStop(Bulk):
    access = {"POST": somewhere(Verb.OPERATE).writing()}
    kind, verb = "stop", Verb.OPERATE


class BulkRestart(Bulk):
    """The connectors and their tasks; `only_failed`: only what has failed."""

    access = {"POST": somewhere(Verb.OPERATE).writing()}
    takes = {"POST": RestartNamesShape}
    kind, verb = "restart", Verb.OPERATE

    def body_of(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        only_failed = fields.get("only_failed", False)
        if not isinstance(only_failed, bool):
            raise bad_request("only_failed must be true or false.")
        return {"include_tasks": True, "only_failed": only_failed}


class BulkDelete(Bulk):
    access = {"POST": somewhere(Verb.DELETE).writing()}
    kind, verb = "delete", Verb.DELETE
