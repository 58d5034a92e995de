"""Rules for a cluster that has none: what anybody would want to know. Nobody is told before there is a destination."""

from django.db import migrations

RULES = (
    ("A connector or task has failed", "failed", 60),
    ("A connector moves nothing for longer than usual", "stalled", 0),
    ("A transaction stays open", "open-transaction", 300),
    ("A fencing round fails", "fencing-failed", 60),
    ("No worker leads", "no-leader", 60),
    ("A topic of the cluster is lost", "topic-lost", 10),
)


def create(apps, schema_editor):
    rule = apps.get_model("alerts", "Rule")
    if not rule.objects.exists():
        rule.objects.bulk_create(rule(name=name, kind=kind, seconds=seconds) for name, kind, seconds in RULES)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0002_incidents_that_last")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
