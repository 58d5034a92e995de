"""The routes of the pages, below `/ui`; trailing slashes are taken off before they are matched."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from ringfence.access.routes import ANYONE, requires
from ringfence.web import (
    actions,
    connector_config,
    connector_edit,
    connector_frame,
    connector_offsets,
    connector_tasks,
    connector_topics,
    create,
    live,
    login,
    preflight,
    tabs,
    views,
)

urlpatterns = [
    path("", views.first),
    path("/connectors", views.connectors),
    path("/connectors/<name:name>", views.connector),
    path("/connectors/<name:name>/transactions", tabs.transactions),
    path("/connectors/<name:name>/generations", tabs.generations),
    path("/connectors/<name:name>/timeline", tabs.timeline),
    path("/connectors/<name:name>/head", connector_frame.head),
    path("/connectors/<name:name>/config", connector_config.config),
    path("/connectors/<name:name>/versions/<int:number>/rollback", connector_config.rollback),
    path("/connectors/<name:name>/tasks", connector_tasks.tasks),
    path("/connectors/<name:name>/offsets", connector_offsets.offsets),
    path("/connectors/<name:name>/offsets/edit", connector_offsets.editor),
    path("/connectors/<name:name>/offsets/preview", connector_offsets.preview),
    path("/connectors/<name:name>/offsets/reset", connector_offsets.reset),
    path("/connectors/<name:name>/offsets/move", connector_offsets.move),
    path("/connectors/<name:name>/offsets/snapshots", connector_offsets.snapshot),
    path("/connectors/<name:name>/offsets/snapshots/<int:number>", connector_offsets.restore),
    path("/connectors/<name:name>/topics", connector_topics.topics),
    path("/connectors/<name:name>/topics/records", connector_topics.records),
    path("/connectors/<name:name>/edit", connector_edit.edit),
    path("/connectors/<name:name>/edit/newer", connector_edit.newer),
    path("/connectors/<name:name>/edit/as", connector_edit.turned),
    path("/connectors/<name:name>/preflight", connector_edit.check),
    *(path(f"/connectors/<name:name>/actions/{action.name}", actions.view_of(action)) for action in actions.ACTIONS),
    path("/connectors/<name:name>/tasks/<int:task>/restart", actions.restart_task),
    path("/new", create.new),
    path("/new/field", create.field),
    path("/new/preflight", preflight.preflight),
    path("/workers", views.workers),
    path("/events", live.events),
    path("/login", login.Login.as_view()),
    path("/logout", requires(POST=ANYONE)(LogoutView.as_view(next_page="/ui/login"))),
]
