"""The routes of our own API; their full paths, since the schema is made of this list."""

from django.urls import URLPattern, path

from ringfence.api.v1 import (
    alerts,
    bulk,
    config,
    connectors,
    creating,
    dead_letters,
    history,
    incidents,
    logs,
    offsets,
    previews,
    sessions,
    share_groups,
    tasks,
    transactions,
    transfer,
    workers,
)
from ringfence.api.v1.base import V1View

_CONNECTOR = "api/v1/connectors/<name:name>"


def _route(route: str, view: type[V1View]) -> URLPattern:
    return path(route, view.as_view(route=route))


urlpatterns = [
    _route("api/v1/connectors", creating.ConnectorsOrNew),
    _route(_CONNECTOR, connectors.ConnectorDetail),
    _route(f"{_CONNECTOR}/generations", connectors.Generations),
    _route(f"{_CONNECTOR}/generations/<int:number>", connectors.Generation),
    _route(f"{_CONNECTOR}/tasks", tasks.Tasks),
    _route(f"{_CONNECTOR}/attempts", tasks.Attempts),
    _route(f"{_CONNECTOR}/events", history.ConnectorEvents),
    _route(f"{_CONNECTOR}/logs", logs.Logs),
    _route(f"{_CONNECTOR}/log-level", logs.LogLevelOfConnector),
    _route(f"{_CONNECTOR}/config", config.Config),
    _route(f"{_CONNECTOR}/versions", config.Versions),
    _route(f"{_CONNECTOR}/versions/<int:number>", config.Version),
    _route(f"{_CONNECTOR}/versions/<int:number>/diff", config.VersionDiff),
    _route(f"{_CONNECTOR}/versions/<int:number>/rollback", config.Rollback),
    _route(f"{_CONNECTOR}/offset-snapshots", offsets.Snapshots),
    _route(f"{_CONNECTOR}/offset-snapshots/<int:number>", offsets.Snapshot),
    _route(f"{_CONNECTOR}/offset-snapshots/<int:number>/restore", offsets.Restore),
    _route(f"{_CONNECTOR}/offsets/preview", offsets.Preview),
    _route(f"{_CONNECTOR}/transactions", transactions.Transactions),
    _route(f"{_CONNECTOR}/transactions/hanging", transactions.Hanging),
    _route(f"{_CONNECTOR}/dead-letters", dead_letters.DeadLetters),
    _route(f"{_CONNECTOR}/dead-letters/replay", dead_letters.Replay),
    _route(f"{_CONNECTOR}/fence", transactions.Fence),
    _route("api/v1/deleted-connectors", config.DeletedConnectors),
    _route("api/v1/bulk/pause", bulk.BulkPause),
    _route("api/v1/bulk/resume", bulk.BulkResume),
    _route("api/v1/bulk/stop", bulk.BulkStop),
    _route("api/v1/bulk/restart", bulk.BulkRestart),
    _route("api/v1/bulk/delete", bulk.BulkDelete),
    _route("api/v1/export", transfer.Export),
    _route("api/v1/import", transfer.Import),
    _route("api/v1/preview", previews.Preview),
    _route("api/v1/transforms/trial", previews.Trial),
    _route("api/v1/events", history.Events),
    _route("api/v1/audit", history.Audit),
    _route("api/v1/sessions", sessions.Sessions),
    _route("api/v1/sessions/<int:number>", sessions.SessionOf),
    _route("api/v1/share-groups", share_groups.ShareGroups),
    _route("api/v1/share-groups/<name:name>", share_groups.ShareGroup),
    _route("api/v1/share-groups/<name:name>/offsets", share_groups.ShareGroupOffsets),
    _route("api/v1/share-groups/<name:name>/settings", share_groups.ShareGroupSettings),
    _route("api/v1/workers", workers.Workers),
    _route("api/v1/leader", workers.Leader),
    _route("api/v1/alerts/rules", alerts.AlertRules),
    _route("api/v1/alerts/rules/<int:number>", alerts.AlertRule),
    _route("api/v1/alerts/destinations", alerts.AlertDestinations),
    _route("api/v1/alerts/destinations/<int:number>", alerts.AlertDestination),
    _route("api/v1/alerts/destinations/<int:number>/test", alerts.AlertDestinationTest),
    _route("api/v1/alerts/incidents", alerts.AlertIncidents),
    _route("api/v1/alerts/incidents/<int:number>", incidents.AlertIncident),
    _route("api/v1/alerts/incidents/<int:number>/acknowledgement", incidents.AlertIncidentAcknowledgement),
    _route("api/v1/alerts/silences", incidents.AlertSilences),
    _route("api/v1/alerts/silences/<int:number>", incidents.AlertSilence),
    _route("api/v1/alerts/deliveries", alerts.AlertDeliveries),
]
