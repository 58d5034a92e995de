"""The routes of the pages, below `/ui`; trailing slashes are taken off before they are matched."""

from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from ringfence.web import actions, create, live, login, preflight, views

urlpatterns = [
    path("", RedirectView.as_view(url="/ui/connectors", query_string=True)),
    path("/connectors", views.connectors),
    path("/connectors/<name:name>", views.connector),
    path("/connectors/<name:name>/edit", create.edit),
    path("/connectors/<name:name>/preflight", preflight.of_connector),
    path("/connectors/<name:name>/actions/<str:action>", actions.act),
    path("/connectors/<name:name>/tasks/<int:task>/restart", actions.restart_task),
    path("/new", create.new),
    path("/new/field", create.field),
    path("/new/preflight", preflight.preflight),
    path("/workers", views.workers),
    path("/events", live.events),
    path("/login", login.Login.as_view()),
    path("/logout", LogoutView.as_view(next_page="/ui/login")),
]
