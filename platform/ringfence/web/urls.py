"""The routes of the pages, below `/ui`; trailing slashes are taken off before they are matched."""

from django.urls import path

from ringfence.web import actions, consumer_groups, login, provider_logout, sign_on, views, vital_signs
from ringfence.web.connector import config as connector_config
from ringfence.web.connector import dead_letters as connector_dead_letters
from ringfence.web.connector import delete as connector_delete
from ringfence.web.connector import edit as connector_edit
from ringfence.web.connector import frame as connector_frame
from ringfence.web.connector import history as connector_history
from ringfence.web.connector import logs as connector_logs
from ringfence.web.connector import offsets as connector_offsets
from ringfence.web.connector import overview as connector_overview
from ringfence.web.connector import proof as connector_proof
from ringfence.web.connector import repairs, tabs
from ringfence.web.connector import snapshots as connector_snapshots
from ringfence.web.connector import tasks as connector_tasks
from ringfence.web.connector import topics as connector_topics
from ringfence.web.handbook import pages as handbook
from ringfence.web.lists import bulk, palette
from ringfence.web.lists import pages as lists
from ringfence.web.live.events_view import events
from ringfence.web.new import beside, create, preflight, review
from ringfence.web.new import form as filling
from ringfence.web.share_groups import pages as share_pages
from ringfence.web.topics import pages as topic_pages
from ringfence.web.topics import tail as topic_tail

urlpatterns = [
    path("", lists.first),
    path("/connectors", lists.connectors),
    path("/connectors.csv", lists.table),
    path("/find", palette.find),
    *(path(f"/bulk/{action.name}", bulk.view_of(action)) for action in bulk.BULK),
    path("/connectors/<name:name>", connector_overview.overview),
    path("/connectors/<name:name>/transactions", tabs.transactions),
    path("/connectors/<name:name>/generations", tabs.generations),
    path("/connectors/<name:name>/timeline", tabs.timeline),
    path("/connectors/<name:name>/head", connector_frame.head),
    path("/connectors/<name:name>/delete", connector_delete.delete),
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
    path("/connectors/<name:name>/snapshots", connector_snapshots.snapshots),
    path("/connectors/<name:name>/snapshots/start", connector_snapshots.start),
    path("/connectors/<name:name>/snapshots/pause", connector_snapshots.pause),
    path("/connectors/<name:name>/snapshots/resume", connector_snapshots.resume),
    path("/connectors/<name:name>/snapshots/stop", connector_snapshots.stop),
    path("/connectors/<name:name>/topics", connector_topics.topics),
    path("/connectors/<name:name>/topics/records", connector_topics.records),
    path("/connectors/<name:name>/dead-letters", connector_dead_letters.dead_letters),
    path("/connectors/<name:name>/dead-letters/records", connector_dead_letters.records),
    path("/connectors/<name:name>/dead-letters/question", connector_dead_letters.question),
    path("/connectors/<name:name>/dead-letters/replay", connector_dead_letters.replay),
    path("/connectors/<name:name>/history", connector_history.history),
    path("/connectors/<name:name>/history/series", connector_history.series),
    path("/connectors/<name:name>/history/moment", connector_history.moment),
    path("/connectors/<name:name>/proof", connector_proof.proof),
    path("/connectors/<name:name>/proof/run", connector_proof.run),
    path("/connectors/<name:name>/proof/count", connector_proof.count),
    path("/connectors/<name:name>/proof/<int:number>/<str:form>", connector_proof.download),
    path("/connectors/<name:name>/logs", connector_logs.logs),
    path("/connectors/<name:name>/logs/level", connector_logs.level),
    path("/connectors/<name:name>/repairs/dead-letter", repairs.dead_letter),
    path("/connectors/<name:name>/repairs/setting", repairs.setting),
    path("/connectors/<name:name>/repairs/rollback", repairs.rollback),
    path("/connectors/<name:name>/edit", connector_edit.edit),
    path("/connectors/<name:name>/edit/newer", connector_edit.newer),
    *(path(f"/connectors/<name:name>/actions/{action.name}", actions.view_of(action)) for action in actions.ACTIONS),
    path("/connectors/<name:name>/tasks/<int:task>/restart", actions.restart_task),
    path("/new", create.new),
    path("/new/docs", create.docs),
    path("/new/field", filling.field),
    path("/new/steps", filling.steps),
    path("/new/as", filling.switch_mode),
    path("/new/beside", beside.beside),
    path("/new/preflight", preflight.preflight),
    path("/new/preview", preflight.preview),
    path("/new/trial", preflight.trial),
    path("/new/review", review.review),
    path("/share-groups", share_pages.share_groups),
    path("/share-groups/<name:name>", share_pages.share_group),
    path("/share-groups/<name:name>/timeline", share_pages.timeline),
    path("/consumer-groups", consumer_groups.groups),
    path("/consumer-groups/<name:name>", consumer_groups.group),
    path("/topics", topic_pages.topics),
    path("/topics/<name:name>", topic_pages.topic),
    path("/topics/<name:name>/records", topic_pages.records),
    path("/topics/<name:name>/origin", topic_pages.origin),
    path("/topics/<name:name>/tail", topic_tail.begin),
    path("/topics/<name:name>/tail/next", topic_tail.go_on),
    path("/workers", views.workers),
    path("/docs", handbook.contents),
    path("/docs/<name:name>", handbook.document),
    path("/events", events),
    path("/vital-signs", vital_signs.vital_signs),
    path("/login", login.Login.as_view()),
    path("/login/sso", sign_on.begin),
    path("/login/sso/callback", sign_on.callback),
    path("/login/sso/ended", sign_on.offer_logout_there),
    path("/login/sso/logout", provider_logout.end_sessions),
    path("/logout", sign_on.Logout.as_view()),
]
