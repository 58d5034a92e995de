"""The console as a Django admin site: unfold's frame and lists, our authorisation.

Django's own permissions, its `is_staff` and `is_superuser` decide nothing here: each route declares its verbs like all
others do, and the lists only read. What changes something is a page of `console.confirm_page`.

`console.urls` adds our pages and lists, so that they may use the site's frame.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.views import LogoutView
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, path
from unfold.sites import UnfoldAdminSite

from ringfence.access.authorise import principal_of
from ringfence.access.principal import NOBODY
from ringfence.access.routes import ANYONE, Need, everywhere, requires, somewhere
from ringfence.access.verbs import Verb

_KEPT: Mapping[str, Need] = {
    "jsi18n": ANYONE,
    "search": everywhere(Verb.ADMIN),
    "app_list": everywhere(Verb.ADMIN),
    "auth_user_changelist": everywhere(Verb.ADMIN),
    "access_grant_changelist": everywhere(Verb.ADMIN),
    "access_token_changelist": everywhere(Verb.ADMIN),
    "audit_auditentry_changelist": somewhere(Verb.VIEW_CONFIG),
    "audit_auditentry_change": somewhere(Verb.VIEW_CONFIG),
}
"""Those of the admin's own routes that are served, for GET only; all others are taken out."""


class Asker:
    """Who asks, in the words of unfold's templates."""

    has_usable_password = False

    def __init__(self, name: str) -> None:
        self._name = name or "everybody here"

    def get_username(self) -> str:
        return self._name

    def get_full_name(self) -> str:
        return self._name


class ConsoleSite(UnfoldAdminSite):  # type: ignore[misc]
    """unfold's templates ask for a site called `admin`."""

    index_title = "Overview"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.own_urls: list[URLPattern | URLResolver] = []

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether somebody may see the frame; each route has been checked before this is asked."""
        return principal_of(request) is not NOBODY

    def get_urls(self) -> list[URLPattern | URLResolver]:
        logout = requires(POST=ANYONE)(LogoutView.as_view(next_page="/ui/login"))
        own = [path("logout/", logout, name="logout"), *self.own_urls]
        return [*own, *_keep_urls(super().get_urls())]

    def extra_context(self, context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
        """No colours: unfold puts those into an inline style, ours are in console.css."""
        asker = Asker(principal_of(request).name)
        request.user = asker  # type: ignore[assignment] # its templates read this one, and fail for nobody's empty name
        return {**context, "colors": {}, "border_radius": None, "user": asker}


def _keep_urls(patterns: Iterable[URLPattern | URLResolver]) -> list[URLPattern | URLResolver]:
    kept: list[URLPattern | URLResolver] = []
    for entry in patterns:
        if isinstance(entry, URLResolver):
            entry.url_patterns[:] = _keep_urls(entry.url_patterns)
            kept += [entry] if entry.url_patterns else []
        elif (need := _KEPT.get(entry.name or "")) is not None:
            entry.callback = requires(GET=need)(entry.callback)
            kept.append(entry)
    return kept


site = ConsoleSite(name="admin")
