"""The routes of the pages, below `/ui`; trailing slashes are taken off before they are matched."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from ringfence.access.routes import ANYONE, requires
from ringfence.web import actions, create, live, login, preflight, tabs, views

urlpatterns = [
    path("", views.first),
    path("/connectors", views.connectors),
    path("/connectors/<name:name>", views.connector),
    path("/connectors/<name:name>/transactions", tabs.transactions),
    path("/connectors/<name:name>/generations", tabs.generations),
    path("/connectors/<name:name>/timeline", tabs.timeline),
    path("/connectors/<name:name>/edit", create.edit),
    path("/connectors/<name:name>/preflight", preflight.of_connector),
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
