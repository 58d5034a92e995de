"""`/api/v1/bulk/…`: one action on many connectors, with a result for each. A failure does not stop the others."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import FlagField, ListField, RequestShape, StringField
from ringfence.bulk import MOST, command, each
from ringfence.engine.leader import commands
from ringfence.requests.request import Command


class ResultShape(serializers.Serializer[Any]):
    """`status`: of the same request for this connector alone."""

    connector = serializers.CharField()
    status = serializers.IntegerField()
    ok = serializers.BooleanField()
    message = serializers.CharField()


class ResultsShape(serializers.Serializer[Any]):
    results = ResultShape(many=True)


class NamesShape(RequestShape):
    connectors = ListField(
        child=StringField(trim_whitespace=False),
        min_length=1,
        max_length=MOST,
        refusal=f"must hold 1 to {MOST} names, each once",
    )

    def validate_connectors(self, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValidationError(f"must hold 1 to {MOST} names, each once")
        return value


class RestartNamesShape(NamesShape):
    only_failed = FlagField(default=False)


class Bulk(V1View):
    """`connectors`: up to 1,000 names. The answer is a 200 with a result for each, in the same order."""

    shape = ResultsShape
    takes = {"POST": NamesShape}
    verb: ClassVar[Verb]

    @abstractmethod
    def command_of(self, fields: Mapping[str, Any]) -> Callable[[str], Command[None]]:
        """Return the command for each connector."""

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        work = command(self.command_of(fields), self.user_name)
        results = each(self.http_request, fields["connectors"], [self.verb], work)
        return Response({"results": [result.fields() for result in results]})


class BulkPause(Bulk):
    access = {"POST": somewhere(Verb.OPERATE).writing()}
    verb = Verb.OPERATE

    def command_of(self, fields: Mapping[str, Any]) -> Callable[[str], Command[None]]:
        return commands.Pause


class BulkResume(Bulk):
    access = {"POST": somewhere(Verb.OPERATE).writing()}
    verb = Verb.OPERATE

    def command_of(self, fields: Mapping[str, Any]) -> Callable[[str], Command[None]]:
        return commands.Resume


class BulkStop(Bulk):
    access = {"POST": somewhere(Verb.OPERATE).writing()}
    verb = Verb.OPERATE

    def command_of(self, fields: Mapping[str, Any]) -> Callable[[str], Command[None]]:
        return commands.Stop


class BulkRestart(Bulk):
    """The connectors and their tasks; `only_failed`: only failed ones."""

    access = {"POST": somewhere(Verb.OPERATE).writing()}
    takes = {"POST": RestartNamesShape}
    verb = Verb.OPERATE

    def command_of(self, fields: Mapping[str, Any]) -> Callable[[str], Command[None]]:
        return lambda name: commands.Restart(name, include_tasks=True, only_failed=fields["only_failed"])


class BulkDelete(Bulk):
    access = {"POST": somewhere(Verb.DELETE).writing()}
    verb = Verb.DELETE

    def command_of(self, fields: Mapping[str, Any]) -> Callable[[str], Command[None]]:
        return commands.Delete
