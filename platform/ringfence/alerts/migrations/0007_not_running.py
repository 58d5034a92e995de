"""The rules for connectors that do not run, parts of the cluster that do not answer, and replaced topics, where rules
are ours.
"""

from django.db import migrations

_FIRST = "A connector or task has failed"
_RULES = (
    ("A connector does not reach its requested state", "not-running", 30),
    ("A part of the cluster does not answer", "cluster", 30),
    ("A topic was deleted and created again", "topic-replaced", 0),
)


def create(apps, schema_editor):
    rule = apps.get_model("alerts", "Rule")
    if not rule.objects.filter(name=_FIRST).exists():
        return
    for name, kind, seconds in _RULES:
        if not rule.objects.filter(kind=kind).exists():
            rule.objects.create(name=name, kind=kind, seconds=seconds)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0006_retrying")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
