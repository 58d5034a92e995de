"""The routes of Kafka Connect's REST API, without trailing slashes: `PathMiddleware` removes those."""

from django.urls import include, path

from ringfence.api import connectors, loggers, plugins, preflight, root
from ringfence.api.v1 import schema

urlpatterns = [
    path("", root.root),
    path("health", root.Health.as_view()),
    path("health/live", root.Live.as_view()),
    path("health/ready", root.Ready.as_view()),
    path("connectors", connectors.Connectors.as_view()),
    path("connectors/<name:name>", connectors.Connector.as_view()),
    path("connectors/<name:name>/config", connectors.Config.as_view()),
    path("connectors/<name:name>/status", connectors.Status.as_view()),
    path("connectors/<name:name>/restart", connectors.Restart.as_view()),
    path("connectors/<name:name>/pause", connectors.Pause.as_view()),
    path("connectors/<name:name>/resume", connectors.Resume.as_view()),
    path("connectors/<name:name>/stop", connectors.Stop.as_view()),
    path("connectors/<name:name>/tasks", connectors.Tasks.as_view()),
    path("connectors/<name:name>/tasks/<int:task>/status", connectors.TaskStatus.as_view()),
    path("connectors/<name:name>/tasks/<int:task>/restart", connectors.TaskRestart.as_view()),
    path("connectors/<name:name>/topics", connectors.Topics.as_view()),
    path("connectors/<name:name>/topics/reset", connectors.TopicsReset.as_view()),
    path("connectors/<name:name>/fence", connectors.Fence.as_view()),
    path("connectors/<name:name>/offsets", connectors.Offsets.as_view()),
    path("admin/loggers", loggers.Loggers.as_view()),
    path("admin/loggers/<name:name>", loggers.Logger.as_view()),
    path("connector-plugins", plugins.Plugins.as_view()),
    path("connector-plugins/<name:name>/config", plugins.PluginConfig.as_view()),
    path("connector-plugins/<name:name>/config/validate", plugins.PluginValidate.as_view()),
    path("api/v1/preflight", preflight.Preflight.as_view()),
    path("api/schema", schema.Schema.as_view()),
    path("api/docs", schema.docs),
    path("", include("ringfence.api.v1.urls")),
]
