"""`POST /api/v1/connectors`: a connector with the source offsets that it begins at (KIP-995)."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import somewhere
from ringfence.access.verbs import Verb
from ringfence.api import reading, writing
from ringfence.api.beginning import create_at
from ringfence.api.jsonbody import config_of, object_of
from ringfence.api.v1.connectors import Connectors, ConnectorShape, as_known
from ringfence.api.v1.offsets import EntryShape
from ringfence.http.errors import bad_request

_FIELDS = ("name", "config", "initial_state", "initial_offsets")


class CreateShape(serializers.Serializer[Any]):
    """`initial_state`: RUNNING, PAUSED or STOPPED; `initial_offsets` takes the verb `offsets`, too."""

    name = serializers.CharField()
    config = serializers.DictField(child=serializers.CharField())
    initial_state = serializers.ChoiceField(choices=list(writing.INITIAL_STATES), required=False)
    initial_offsets = EntryShape(many=True, required=False)


class ConnectorsOrNew(Connectors):
    """GET lists, POST creates."""

    access = {"GET": somewhere(Verb.VIEW), "POST": somewhere(Verb.EDIT).writing()}
    takes = {"POST": CreateShape}
    answers = {"POST": ConnectorShape}
    codes = {"POST": 201}

    def post(self, request: Request) -> Response:
        self.parse_parameters()
        body = object_of(self.json_body(), "The request body")
        if unknown := sorted(set(body) - set(_FIELDS)):
            raise bad_request(f"Unknown field(s) {', '.join(unknown)}: use some of {', '.join(_FIELDS)}.")
        name, state = body.get("name"), body.get("initial_state", "RUNNING")
        if not isinstance(name, str) or not name.strip():
            raise bad_request("name must be a string, and not an empty one.")
        if not isinstance(state, str) or state not in writing.INITIAL_STATES:
            raise bad_request(f"initial_state must be one of {', '.join(writing.INITIAL_STATES)}.")
        config, name = config_of(body.get("config")), name.strip()
        self.authorise(Verb.EDIT, name)
        if "initial_offsets" in body:
            self.authorise(Verb.OFFSETS, name)
            offsets = writing.offsets_of({"offsets": body["initial_offsets"]})
            create_at(name, config, offsets, state, self.principal)
        else:
            writing.create(name, config, state, self.principal)
        (row,) = as_known([reading.connector(name)])
        location = request.build_absolute_uri(f"/api/v1/connectors/{row.path}")
        return Response(ConnectorShape(row).data, status=201, headers={"Location": location})
