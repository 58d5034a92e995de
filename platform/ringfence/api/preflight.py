"""`/api/v1/preflight`: checks of a configuration before it runs. Nothing is created or disturbed."""

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_reads, connector_writes
from ringfence.api.base import ConnectView, check_size, config_of
from ringfence.audit import probes
from ringfence.engine import questions
from ringfence.http.errors import bad_request
from ringfence.http.masking import Masker, unmask
from ringfence.projection.slots import REMEDY, count_slots, find_shortage


def checks_of(config: Mapping[str, str], by: Principal) -> list[dict[str, Any]]:
    """Run the checks. Returns for each: name, result (ok, failed, unknown), message, remedy, key, decides. No secrets.

    decides: create and update are refused because of it. Raises the errors of a command.
    """
    check_size(config)
    if not config.get("connector.class", "").strip():
        raise bad_request("connector.class is required: it names the plugin to ask.")
    masker = Masker([config["connector.class"]])
    checks = [
        {name: masker.scrub(text, config) if isinstance(text, str) else text for name, text in check.items()}
        for check in dispatch.ask(questions.Preflight(config, java=by.may(Verb.JAVA_PLUGINS, config.get("name", ""))))
    ]
    return [*checks, _check_slots(config)]


def _check_slots(config: Mapping[str, str]) -> dict[str, Any]:
    """Check whether there are slots for its tasks. A warning: they wait, and start automatically."""
    check = {"name": "slots", "result": "ok", "message": "", "remedy": "", "key": "", "decides": False}
    if shortage := find_shortage(config):
        return {**check, "result": "failed", "message": shortage, "remedy": f"{REMEDY}."}
    slots = count_slots()
    return {**check, "message": f"{slots.used} of {slots.total} in use."}


class Preflight(ConnectView):
    access = {"GET": somewhere(Verb.VIEW_CONFIG), "PUT": somewhere(Verb.EDIT)}

    def get(self, request: Request) -> Response:
        """Check an existing connector: `?connector=`."""
        name = request.query_params.get("connector", "")
        if not name:
            raise bad_request("Which connector? Use ?connector=<name>, or PUT a configuration.")
        self.authorise(Verb.VIEW_CONFIG, name)
        return self._check(name, connector_reads.connector(name).settings)

    def put(self, request: Request) -> Response:
        """Check the configuration in the body, in the format of `/connectors/<name>/config`, including its name."""
        config = config_of(self.json_body())
        self.authorise_masks(config)
        name = config.get("name", "")
        complete = connector_writes.with_name(name, unmask(config, connector_writes.read_stored_settings(name)))
        return self._check(name, complete)

    def _check(self, name: str, config: Mapping[str, str]) -> Response:
        with probes.audit(self.http_request, self.principal, probes.PREFLIGHT, config):
            checks = checks_of(config, self.principal)
        return Response({"connector": name, "checks": checks})
