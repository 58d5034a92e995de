"""Which incidents somebody may see."""

from django.db.models import Q, QuerySet

from ringfence.access.principal import Principal
from ringfence.access.verbs import Verb
from ringfence.alerts.models import Incident


def incidents(who: Principal) -> QuerySet[Incident]:
    """Those of connectors that may be seen; those of the cluster for whoever sees anything."""
    if who.may_everywhere(Verb.VIEW):
        return Incident.objects.all()
    return Incident.objects.filter(Q(connector="") | who.query(Verb.VIEW, "connector"))
