from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("access", "0005_provider_sessions")]

    operations = [
        migrations.AddField(model_name="grant", name=name, field=models.BigIntegerField(null=True))
        for name in ("connectors", "tasks", "config_bytes")
    ]
