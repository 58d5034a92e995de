"""The permission check of pages and API. Views call it for connectors that the path does not name.

A route declares its permissions by `access = {"GET": on_connector(Verb.VIEW)}` in a class, else by `@requires(GET=…)`.
`AccessMiddleware` reads it before the view runs. A method without a declaration is refused to everybody, and a test
walks all routes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from django.http import HttpRequest

from ringfence.access.principal import NOBODY, Principal, Verb


class Forbidden(Exception):
    """A permission is missing. The message names it and the connector; pages and API answer 403.

    connector: None for all connectors. kind: what the name refers to, if not a connector.
    """

    def __init__(self, principal: Principal, verb: Verb, connector: str | None, *, kind: str = "connector") -> None:
        self.verb = verb
        self.connector = connector
        where = "every connector" if connector is None else f"{kind} {connector}"
        who = f"{principal.name} lacks" if principal.name else "You lack"
        remedy = "Ask an administrator for it, or use a token that has it."
        self.message = f"{who} the verb `{verb}` on {where} ({verb.meaning}). {remedy}"
        super().__init__(self.message)


def principal_of(request: HttpRequest) -> Principal:
    """Return the principal that the middleware has identified."""
    principal = getattr(request, "ringfence_principal", NOBODY)
    assert isinstance(principal, Principal)
    return principal


def authorise(request: HttpRequest, verb: Verb, connector: str) -> None:
    """Raise `Forbidden` unless the verb is allowed on that connector. A write's audit entry names the connector from
    now on.
    """
    principal = principal_of(request)
    draft = getattr(request, "ringfence_draft", None)
    if draft is not None:
        draft.about(connector)
    if not principal.may(verb, connector):
        raise Forbidden(principal, verb, connector)


def authorise_everywhere(request: HttpRequest, verb: Verb) -> None:
    principal = principal_of(request)
    if not principal.may_everywhere(verb):
        raise Forbidden(principal, verb, None)


View = TypeVar("View", bound=Callable[..., Any])


class Reach(Enum):
    """Who may call a method, and where the verbs must be allowed for it."""

    PUBLIC = "for everybody, without a login"
    SIGNED = "for whoever signs the request: the leader checks it, and the view leaves the audit entry"
    ANYONE = "for everybody who is logged in"
    WHOLE = "for everybody who is logged in, except with a token that has a limit: it is about the account itself"
    SOMEWHERE = "on some connector: the view shows and touches only those where they are allowed"
    CONNECTOR = "on the connector that the path names"
    EVERYWHERE = "on every connector"


@dataclass(frozen=True, slots=True)
class Need:
    """The permissions that a route's method needs. writes: it changes something, so it gets an audit entry."""

    reach: Reach
    verbs: tuple[Verb, ...] = ()
    writes: bool = False

    def writing(self) -> "Need":
        return Need(self.reach, self.verbs, writes=True)


PUBLIC = Need(Reach.PUBLIC)
ANYONE = Need(Reach.ANYONE)
WHOLE = Need(Reach.WHOLE)
SIGNED = Need(Reach.SIGNED)


def somewhere(*verbs: Verb) -> Need:
    return Need(Reach.SOMEWHERE, verbs)


def on_connector(*verbs: Verb) -> Need:
    """The path's `name` is the connector's."""
    return Need(Reach.CONNECTOR, verbs)


def everywhere(*verbs: Verb) -> Need:
    return Need(Reach.EVERYWHERE, verbs)


def requires(**needs: Need) -> Callable[[View], View]:
    """Declare a function view's needs: `@requires(GET=…, POST=….writing())`, above all other decorators."""

    def declare(view: View) -> View:
        view.access = needs  # type: ignore[attr-defined]
        return view

    return declare


def declarations(view: Callable[..., Any]) -> Mapping[str, Need]:
    """Return what a view declares, {} for nothing."""
    owner = getattr(view, "view_class", None) or getattr(view, "cls", None)
    needs = getattr(view, "access", None) or getattr(owner, "access", None)
    return needs if isinstance(needs, Mapping) else {}


def methods_of(view: Callable[..., Any]) -> frozenset[str] | None:
    """Return the methods that a class view answers; None for a function, which may answer any."""
    owner = getattr(view, "view_class", None) or getattr(view, "cls", None)
    if owner is None:
        return None
    return frozenset(name.upper() for name in owner.http_method_names if hasattr(owner, name)) - {"OPTIONS"}


def need_of(view: Callable[..., Any], method: str) -> Need | None:
    """Return what this method needs; None if nothing is declared."""
    needs = declarations(view)
    return needs.get(method) or (needs.get("GET") if method == "HEAD" else None)
