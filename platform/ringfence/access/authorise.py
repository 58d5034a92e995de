"""The permission check of pages and API. Views call it for connectors that the path does not name."""

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
