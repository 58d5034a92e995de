from django.db import migrations, models


class Migration(migrations.Migration):
    """Workers of the version before add incidents without a report."""

    dependencies = [("alerts", "0008_incident_room")]

    operations = [
        migrations.AlterField("incident", "report", models.TextField(default="{}", db_default="{}")),
    ]
