"""The rule for sources that cannot be read, where rules are ours."""

from django.db import migrations

_FIRST = "A connector or task has failed"


def create(apps, schema_editor):
    rule = apps.get_model("alerts", "Rule")
    if rule.objects.filter(name=_FIRST).exists() and not rule.objects.filter(kind="retrying").exists():
        rule.objects.create(name="A source cannot be read", kind="retrying", seconds=30)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0005_foreign_records")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
