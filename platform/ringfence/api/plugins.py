"""`/connector-plugins`: connectors come from a worker's plugin process, because only there plugin code may run.

Converters, transforms and predicates are part of Ringfence, and are listed here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_writes, topic_grant_check
from ringfence.api.base import ConnectView, config_with_nulls
from ringfence.audit import probes
from ringfence.connectors.api.config_types import CHOICE_NOTES, EXAMINES, GUARANTEE, SELECTS
from ringfence.connectors.catalog import find_part, parts
from ringfence.dispatch import Refusal
from ringfence.engine.questions import ConfigKeys, ListPlugins, Validate
from ringfence.http.errors import bad_request
from ringfence.http.masking import unmask
from ringfence.projection.slots import REMEDY, find_shortage

_LATEST: Final = "latest"
"""The version that clients request for the newest one."""


class Plugins(ConnectView):
    access = {"GET": somewhere(Verb.VIEW)}

    def get(self, request: Request) -> Response:
        rows = [row for plugin in dispatch.ask(ListPlugins()) for row in _connector_rows(plugin)]
        if not self.flag("connectorsOnly", default=True):
            rows += [_row(part.class_name, part.type, part.version) for part in parts()]
        return Response(rows)


def _connector_rows(plugin: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield each version of the connector, under its Python class and each Java class that it replaces, because clients
    look for those.
    """
    twins = [name for name in plugin.get("names", ()) if "." in name and name != plugin["class"]]
    for class_name in (plugin["class"], *twins):
        for version in plugin.get("versions") or [plugin.get("version")]:
            yield _row(class_name, plugin["type"], version)


def _row(class_name: str, kind: str, version: str | None) -> dict[str, str]:
    return {"class": class_name, "type": kind, **({"version": version} if version else {})}


class PluginConfig(ConnectView):
    access = {"GET": somewhere(Verb.VIEW)}

    def get(self, request: Request, name: str) -> Response:
        version = request.query_params.get("version")
        if version == _LATEST:
            version = None
        try:
            return Response(dispatch.ask(ConfigKeys(name, common=True, version=version)))
        except Refusal as refused:
            part = find_part(name)
            if refused.status != 404 or part is None:
                raise
        if version not in (None, part.version):
            installed = part.version or "one without a version"
            raise bad_request(f"Version {version} of {name} is not installed; installed is {installed}")
        return Response(part.settings.infos())


class PluginValidate(ConnectView):
    access = {"PUT": somewhere(Verb.EDIT)}

    def put(self, request: Request, name: str) -> Response:
        settings = config_with_nulls(self.json_body())
        config = {key: value for key, value in settings.items() if value is not None}
        self.authorise_masks(config)
        config = unmask(config, connector_writes.read_stored_settings(config.get("name", "")))
        java = self.principal.may(Verb.JAVA_PLUGINS, config.get("name", ""))
        aimed = {**config, "connector.class": config.get("connector.class", name)}
        with probes.audit(self.http_request, self.principal, probes.VALIDATION, aimed):
            validation = dispatch.ask(Validate(name, {**settings, **config}, java))
        class_name = config.get("connector.class", name)
        connector_writes.remember_secrets(class_name, validation)
        validation = topic_grant_check.add_to(validation, config, self.principal)
        for ours in (
            CHOICE_NOTES,
            GUARANTEE,
            SELECTS,
            EXAMINES,
        ):  # for forms only
            validation.pop(ours, None)
        return Response(
            connector_writes.mask_validation(validation, class_name, config), headers=_warn_of_slots(config)
        )


def _warn_of_slots(config: Mapping[str, str]) -> dict[str, str]:
    """Return a header, because strict clients reject fields in the body that Kafka Connect's answer does not have."""
    shortage = find_shortage(config)
    return {"Warning": f'299 ringfence "{shortage} {REMEDY}."'} if shortage else {}
