"""`/connector-plugins`: answered by a worker's plugin process, since only there plugin code may run."""

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.routes import somewhere
from ringfence.access.verbs import Verb
from ringfence.api import writing
from ringfence.api.base import ConnectView
from ringfence.api.jsonbody import config_of
from ringfence.api.masking import unmasked


class Plugins(ConnectView):
    access = {"GET": somewhere(Verb.VIEW)}

    def get(self, request: Request) -> Response:
        plugins = dispatch.list_plugins()
        if self.flag("connectorsOnly", default=True):
            plugins = [plugin for plugin in plugins if plugin.get("type") in ("source", "sink")]
        shown = ("class", "type", "version")
        return Response([{key: plugin[key] for key in shown if key in plugin} for plugin in plugins])


class PluginConfig(ConnectView):
    access = {"GET": somewhere(Verb.VIEW)}

    def get(self, request: Request, name: str) -> Response:
        return Response(dispatch.config_keys(name, common=True, version=request.query_params.get("version")))


class PluginValidate(ConnectView):
    access = {"PUT": somewhere(Verb.EDIT)}

    def put(self, request: Request, name: str) -> Response:
        config = config_of(self.json_body())
        self.authorise_masks(config)
        config = unmasked(config, writing.stored_settings(config.get("name", "")))
        found = dispatch.validate(name, config)
        class_name = config.get("connector.class", name)
        writing.remember_secrets(class_name, found)
        return Response(writing.masked_validation(found, class_name, config))
