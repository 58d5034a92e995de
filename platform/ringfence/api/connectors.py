"""`/connectors` and all paths below it."""

import base64
from urllib.parse import quote

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import SIGNED, on_connector, somewhere
from ringfence.access.client_address import address_of
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_reads, connector_writes
from ringfence.api.base import ConnectView, config_of, object_of, text_of
from ringfence.api.connector_reads import expand
from ringfence.api.connector_writes import Saved
from ringfence.api.v1 import offsets
from ringfence.audit.models import Outcome
from ringfence.audit.trail import record
from ringfence.connectors.plural_forms import write_noun
from ringfence.engine.leader import commands
from ringfence.http.errors import bad_request
from ringfence.http.masking import Masker

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"
_CREATE_FIELDS = {"name", "config", "initial_state"}
_JAVA_TRIMS = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""


def _answer(request: Request, saved: Saved, who: Principal) -> Response:
    class_name = saved.config["connector.class"].strip()
    body = connector_reads.info(saved.name, saved.config, range(saved.tasks), Masker([class_name]), who)
    if not saved.created:
        return Response(body)
    location = request.build_absolute_uri(f"/connectors/{quote(saved.name, safe='')}")
    return Response(body, status=201, headers={"Location": location})


def _without_null_name(config: object) -> object:
    """Remove a null name, which Kafka Connect ignores: the path or the request names the connector."""
    if isinstance(config, dict) and config.get("name", "") is None:
        return {key: value for key, value in config.items() if key != "name"}
    return config


class Connectors(ConnectView):
    access = {"GET": somewhere(Verb.VIEW), "POST": somewhere(Verb.EDIT).writing()}

    def get(self, request: Request) -> Response:
        expansions = request.query_params.getlist("expand")
        return Response(expand(expansions, self.principal) if expansions else connector_reads.names(self.principal))

    def post(self, request: Request) -> Response:
        body = object_of(self.json_body(), "The request body")
        if unknown := sorted(set(body) - _CREATE_FIELDS):
            raise bad_request(
                f"Unknown {write_noun(len(unknown), 'field')} {', '.join(unknown)}: "
                "name, config and initial_state are expected."
            )
        name, state = body.get("name"), body.get("initial_state")
        initial_state = "RUNNING" if state is None else str(state).upper()
        if initial_state not in connector_writes.INITIAL_STATES:
            raise bad_request(f"initial_state must be one of {', '.join(connector_writes.INITIAL_STATES)}.")
        stripped = "" if name is None else text_of(name, "name").strip(_JAVA_TRIMS)
        self.authorise(Verb.EDIT, stripped)
        config = config_of(_without_null_name(body.get("config")))
        saved = connector_writes.create(stripped, config, initial_state, self.principal, await_rows=False)
        return _answer(request, saved, self.principal)


class Connector(ConnectView):
    access = {"GET": on_connector(Verb.VIEW), "DELETE": on_connector(Verb.DELETE).writing()}

    def get(self, request: Request, name: str) -> Response:
        return Response(connector_reads.info_of(name, self.principal))

    def delete(self, request: Request, name: str) -> Response:
        dispatch.command(commands.Delete(name), user=self.user_name, await_rows=False)
        return Response(status=204)


class Config(ConnectView):
    access = {
        "GET": on_connector(Verb.VIEW_CONFIG),
        "PUT": on_connector(Verb.EDIT).writing(),
        "PATCH": on_connector(Verb.EDIT).writing(),
    }

    def get(self, request: Request, name: str) -> Response:
        return Response(connector_reads.info_of(name, self.principal)["config"])

    def put(self, request: Request, name: str) -> Response:
        config = config_of(_without_null_name(self.json_body()))
        return _answer(
            request, connector_writes.configure(name, config, self.principal, await_rows=False), self.principal
        )

    def patch(self, request: Request, name: str) -> Response:
        patch = object_of(self.json_body(), "The request body")
        if patch.get("name", name) != name:
            raise bad_request(f"A connector cannot be renamed: name is {name}.")
        return _answer(request, connector_writes.patch_config(name, patch, self.principal), self.principal)


class Status(ConnectView):
    access = {"GET": on_connector(Verb.VIEW)}

    def get(self, request: Request, name: str) -> Response:
        return Response(connector_reads.status_of(name))


class Fence(ConnectView):
    """Internal (KIP-618): the leader checks the request's signature, which replaces a login."""

    access = {"PUT": SIGNED}

    def put(self, request: Request, name: str) -> Response:
        signature, algorithm = request.headers.get(SIGNATURE_HEADER), request.headers.get(ALGORITHM_HEADER)
        if not signature or not algorithm:
            raise bad_request(f"Internal request missing required signature: {SIGNATURE_HEADER} and {ALGORITHM_HEADER}")
        payload = base64.b64encode(self.raw_body).decode()
        dispatch.command(commands.Fence(name, payload, signature, algorithm))
        # Not earlier: otherwise anyone could fill the audit trail with requests that no worker has signed.
        address = address_of(self.http_request)
        record("fence", user="", via="signature", address=address, connector=name, outcome=Outcome.DONE, status=204)
        return Response(status=204)


class Restart(ConnectView):
    access = {"POST": on_connector(Verb.OPERATE).writing()}

    def post(self, request: Request, name: str) -> Response:
        include_tasks, only_failed = self.flag("includeTasks"), self.flag("onlyFailed")
        restart = commands.Restart(name, include_tasks, only_failed)
        if not (include_tasks or only_failed):
            dispatch.command(restart, user=self.user_name, await_rows=False)
            return Response(status=204)
        plan = connector_writes.restart_plan(name, include_tasks=include_tasks, only_failed=only_failed)
        dispatch.command(restart, user=self.user_name, await_rows=False)
        return Response(plan, status=202)


class Pause(ConnectView):
    access = {"PUT": on_connector(Verb.OPERATE).writing()}

    def put(self, request: Request, name: str) -> Response:
        dispatch.command(commands.Pause(name), user=self.user_name, await_rows=False)
        return Response(status=202)


class Resume(ConnectView):
    access = {"PUT": on_connector(Verb.OPERATE).writing()}

    def put(self, request: Request, name: str) -> Response:
        dispatch.command(commands.Resume(name), user=self.user_name, await_rows=False)
        return Response(status=202)


class Stop(ConnectView):
    access = {"PUT": on_connector(Verb.OPERATE).writing()}

    def put(self, request: Request, name: str) -> Response:
        dispatch.command(commands.Stop(name), user=self.user_name, await_rows=False)
        return Response(status=204)


class Tasks(ConnectView):
    access = {"GET": on_connector(Verb.VIEW_CONFIG)}

    def get(self, request: Request, name: str) -> Response:
        return Response(connector_reads.task_configs(name))


class TaskStatus(ConnectView):
    access = {"GET": on_connector(Verb.VIEW)}

    def get(self, request: Request, name: str, task: int) -> Response:
        return Response(connector_reads.task_status_of(name, task))


class TaskRestart(ConnectView):
    access = {"POST": on_connector(Verb.OPERATE).writing()}

    def post(self, request: Request, name: str, task: int) -> Response:
        dispatch.command(commands.RestartTask(name, task), user=self.user_name, await_rows=False)
        return Response(status=204)


class Topics(ConnectView):
    access = {"GET": on_connector(Verb.VIEW)}

    def get(self, request: Request, name: str) -> Response:
        return Response({name: {"topics": connector_reads.topics(name)}})


class TopicsReset(ConnectView):
    access = {"PUT": on_connector(Verb.OPERATE).writing()}

    def put(self, request: Request, name: str) -> Response:
        dispatch.command(commands.ResetTopics(name), user=self.user_name)
        return Response(status=202)


class Offsets(ConnectView):
    access = {
        "GET": on_connector(Verb.VIEW),
        "PATCH": on_connector(Verb.OFFSETS).writing(),
        "DELETE": on_connector(Verb.OFFSETS).writing(),
    }

    def get(self, request: Request, name: str) -> Response:
        return Response(connector_reads.offsets(name))

    def patch(self, request: Request, name: str) -> Response:
        entries = connector_writes.last_of_each(connector_writes.offsets_of(self.json_body()))
        moved = offsets.alter(name, entries, self.user_name)
        return Response({"message": moved.message(f"The offsets of connector {name} have been altered.")})

    def delete(self, request: Request, name: str) -> Response:
        moved = offsets.reset(name, self.user_name)
        return Response({"message": moved.message(f"The offsets of connector {name} have been reset.")})
