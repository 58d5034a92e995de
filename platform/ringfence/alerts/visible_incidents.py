"""The incidents that a user may see."""

from django.db.models import Q, QuerySet

from ringfence.access.principal import Principal
from ringfence.access.verbs import Verb
from ringfence.alerts.models import Incident


def incidents(who: Principal) -> QuerySet[Incident]:
    """Return the incidents of visible connectors, and those of the cluster for users who may see any connector."""
    if who.may_everywhere(Verb.VIEW):
        return Incident.objects.all()
    return Incident.objects.filter(Q(connector="") | who.query(Verb.VIEW, "connector"))
