"""`POST /api/v1/connectors`: creates a connector with initial source offsets (KIP-995)."""

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import somewhere
from ringfence.access.verbs import Verb
from ringfence.api import connector_reads, connector_writes
from ringfence.api.initial_offsets import create_at
from ringfence.api.v1.connectors import Connectors, ConnectorShape, as_known
from ringfence.api.v1.request_fields import OffsetsField, OneOfField, RequestShape, SettingsField, StringField


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
