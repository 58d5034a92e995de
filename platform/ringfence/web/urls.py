"""The routes of the pages, below `/ui`. Trailing slashes are removed before matching."""

from django.urls import include, path

from ringfence.web import (
    action_buttons,
    consumer_access,
    consumer_groups,
    login,
    page_context,
    plugins,
    provider_logout,
    sign_on,
    views,
)
from ringfence.web.connector import config as connector_config
from ringfence.web.connector import delete as connector_delete
from ringfence.web.connector import edit as connector_edit
from ringfence.web.connector import record_repairs
from ringfence.web.connector import tab_page as connector_frame
from ringfence.web.connector.tab_groups import TABS
from ringfence.web.handbook import pages as handbook
from ringfence.web.lists import bulk, palette
from ringfence.web.lists import pages as lists
from ringfence.web.live.events_view import events
from ringfence.web.new import connection_test, create, live_results, preflight, review
from ringfence.web.new import form as filling
from ringfence.web.share_groups import pages as share_pages
from ringfence.web.topics import live_tail as topic_tail
from ringfence.web.topics import pages as topic_pages

urlpatterns = [
    path("", lists.first),
    path("/connectors", lists.connectors),
    path("/connectors.csv", lists.table),
    path("/logs", lists.logs),
    path("/find", palette.find),
    *(path(f"/bulk/{action.name}", bulk.view_of(action)) for action in bulk.BULK),
    *(path(f"/connectors/<name:name>/{tab.key}".rstrip("/"), include(tab.module)) for tab in TABS),
    path("/connectors/<name:name>/head", connector_frame.head),
    path("/connectors/<name:name>/delete", connector_delete.delete),
    path("/connectors/<name:name>/versions/<int:number>/rollback", connector_config.rollback),
    path("/connectors/<name:name>/repairs/dead-letter", record_repairs.use_dead_letter_queue),
    path("/connectors/<name:name>/repairs/setting", record_repairs.change_setting),
    path("/connectors/<name:name>/repairs/rollback", record_repairs.rollback),
    path("/connectors/<name:name>/edit", connector_edit.edit),
    path("/connectors/<name:name>/edit/newer", connector_edit.newer),
    *(
        path(f"/connectors/<name:name>/actions/{action.name}", action_buttons.view_of(action))
        for action in action_buttons.ACTIONS
    ),
    path("/connectors/<name:name>/tasks/<int:task>/restart", action_buttons.restart_task),
    path("/new", create.new),
    path("/new/docs", create.docs),
    path("/new/field", filling.field),
    path("/new/steps", filling.steps),
    path("/new/as", filling.switch_mode),
    path("/new/test", connection_test.test),
    path("/new/beside", live_results.beside),
    path("/new/preflight", preflight.preflight),
    path("/new/preview", preflight.preview),
    path("/new/trial", preflight.trial),
    path("/new/review", review.review),
    path("/plugins", plugins.plugins),
    path("/plugins/<int:number>/retry", plugins.retry),
    path("/plugins/<int:number>/take-back", plugins.cancel_installation),
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
    path("/kafka", consumer_access.kafka),
    path("/docs", handbook.contents),
    path("/docs/<name:name>", handbook.document),
    path("/events", events),
    path("/vital-signs", page_context.vital_signs),
    path("/login", login.Login.as_view()),
    path("/login/sso", sign_on.begin),
    path("/login/sso/callback", sign_on.callback),
    path("/login/sso/ended", sign_on.offer_logout_there),
    path("/login/sso/logout", provider_logout.end_sessions),
    path("/logout", sign_on.Logout.as_view()),
]
