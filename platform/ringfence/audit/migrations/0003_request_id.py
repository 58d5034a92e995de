from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_names")]

    operations = [
        migrations.AddField("auditentry", "request_id", models.CharField(max_length=100, default="", db_default="")),
    ]
