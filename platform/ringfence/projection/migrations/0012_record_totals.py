import json
from typing import Any

from django.db import migrations, models


def seed(apps: Any, _editor: Any) -> None:
    """What tasks have counted so far goes on."""
    task, totals = apps.get_model("mirror", "Task"), apps.get_model("mirror", "RecordTotals")
    connector = apps.get_model("mirror", "Connector")
    for row in task.objects.exclude(records_total=0):
        attempts = json.dumps({f"{row.live_generation}.{row.live_attempt}": {"records": row.records}})
        more = {"records": row.records_total, "last_commit_ms": row.last_commit_ms, "attempts": attempts}
        totals.objects.create(connector=row.connector, task=row.number, **more)
    for name in totals.objects.values_list("connector", flat=True).distinct():
        rows = list(totals.objects.filter(connector=name))
        sums = {
            "records_total": sum(row.records for row in rows),
            "last_commit_ms": max(row.last_commit_ms for row in rows),
        }
        connector.objects.filter(name=name).update(**sums)


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0011_kafka_address"),
    ]

    operations = [
        migrations.AddField(
            model_name="connector",
            name="aborted_records_total",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="bad_since_ms",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="dead_letters_total",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="last_commit_ms",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="records_total",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="skipped_total",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="recent_skipped",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="connector",
            name="recent_dead_letters",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="minute",
            name="skipped",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="minute",
            name="dead_letters",
            field=models.BigIntegerField(default=0),
        ),
        migrations.CreateModel(
            name="RecordTotals",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("connector", models.TextField()),
                ("task", models.IntegerField()),
                ("records", models.BigIntegerField(default=0)),
                ("skipped", models.BigIntegerField(default=0)),
                ("dead_letters", models.BigIntegerField(default=0)),
                ("aborted_records", models.BigIntegerField(default=0)),
                ("last_commit_ms", models.BigIntegerField(default=0)),
                ("attempts", models.TextField(default="{}")),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("connector", "task"), name="one_record_totals")],
            },
        ),
        migrations.RunPython(seed, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name="task",
            name="records_total",
        ),
    ]
