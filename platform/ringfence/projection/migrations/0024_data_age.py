from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0023_request_ids")]

    operations = [migrations.AddField("historypoint", "age_ms", models.BigIntegerField(null=True))]
