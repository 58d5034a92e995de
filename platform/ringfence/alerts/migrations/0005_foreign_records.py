"""Foreign records of the config topic, and the rule for them, where rules are ours."""

from django.db import migrations, models

_FIRST = "A connector or task has failed"


def create(apps, schema_editor):
    rule = apps.get_model("alerts", "Rule")
    if rule.objects.filter(name=_FIRST).exists() and not rule.objects.filter(kind="foreign-record").exists():
        rule.objects.create(name="The config topic has foreign records", kind="foreign-record", seconds=0)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0004_source_metrics")]
    operations = [
        migrations.CreateModel(
            name="ForeignRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("offset", models.BigIntegerField()),
                ("key", models.TextField()),
                ("connector", models.TextField(default="")),
                ("message", models.TextField(default="")),
                ("time_ms", models.BigIntegerField(db_index=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("offset", "key"), name="one_foreign_record")],
            },
        ),
        migrations.RunPython(create, migrations.RunPython.noop),
    ]
