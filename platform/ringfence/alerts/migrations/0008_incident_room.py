"""What was known about an incident's cause, and notes about it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0007_not_running")]
    operations = [
        migrations.AddField(model_name="incident", name="report", field=models.TextField(default="{}")),
        migrations.CreateModel(
            name="IncidentNote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time_ms", models.BigIntegerField()),
                ("user", models.TextField(default="")),
                ("text", models.TextField()),
                (
                    "incident",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="notes", to="alerts.incident"
                    ),
                ),
            ],
        ),
    ]
