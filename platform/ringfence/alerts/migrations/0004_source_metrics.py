"""The rule for what sources say of themselves, such as a replication slot that fills a disk, where rules are ours."""

from django.db import migrations

_FIRST = "A connector or task has failed"


def create(apps, schema_editor):
    rule = apps.get_model("alerts", "Rule")
    if rule.objects.filter(name=_FIRST).exists() and not rule.objects.filter(kind="source-metric").exists():
        rule.objects.create(name="A source is behind, or holds too much back", kind="source-metric", seconds=60)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0003_first_rules")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
