"""Shows what an account may do on a connector, by the same rules that decide about its requests."""

from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from ringfence.access.authorise import everywhere, requires
from ringfence.access.identify import rights_of
from ringfence.access.principal import Principal, Verb
from ringfence.console.live_page import AUDIT, render_live
from ringfence.fencing.topics.topic_grants import Groups
from ringfence.projection.models import Connector

_MOST_NAMES = 500


def principal_for(user: User) -> Principal:
    """Return the principal of the account's logins. A disabled account has no permissions."""
    return Principal(user.get_username(), "session", rights_of(user) if user.is_active else ())


@requires(GET=everywhere(Verb.ADMIN))
@require_safe
def rights(request: HttpRequest, name: str) -> HttpResponse:
    """`?connector=`: a name that need not exist yet."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise Http404(f"There is no account {name}")
    connector = request.GET.get("connector", "").strip()[:300]
    who = principal_for(user)
    verbs = who.verbs_on(connector) if connector else frozenset()
    answers = [(verb.value, verb.meaning, verb in verbs, _topics(who.topics(verb, connector))) for verb in Verb]
    names = list(Connector.objects.filter(known=True).order_by("name").values_list("name", flat=True)[:_MOST_NAMES])
    context: dict[str, Any] = {"account": user, "connector": connector, "names": names}
    context["answers"] = answers if connector else []
    return render_live(request, "rights", f"What {name} may do", AUDIT, **context)


def _topics(groups: Groups) -> str:
    """Return the topic patterns that limit a permission; "" for none."""
    return "; and ".join(" or ".join(group) for group in groups)


urls = [path("settings/people/<name:name>/rights", rights)]
