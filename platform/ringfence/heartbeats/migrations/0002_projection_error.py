from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("heartbeats", "0001_initial")]

    operations = [
        migrations.AddField(model_name="heartbeat", name="projection_error", field=models.TextField(default="")),
    ]
