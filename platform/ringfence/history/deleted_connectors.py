"""Deleted connectors with kept versions of their configurations."""

from django.db.models import Max, QuerySet

from ringfence.access.principal import Principal
from ringfence.access.verbs import Verb
from ringfence.history.models import ConfigVersion
from ringfence.projection.models import Connector


def list_deleted(who: Principal) -> QuerySet[ConfigVersion]:
    """Return the newest version of each whose configuration `who` may see."""
    there = Connector.objects.filter(known=True).values("name")
    deleted = ConfigVersion.objects.filter(who.query(Verb.VIEW_CONFIG, "connector")).exclude(connector__in=there)
    return ConfigVersion.objects.filter(pk__in=deleted.values("connector").annotate(newest=Max("pk")).values("newest"))
