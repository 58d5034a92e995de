from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("access", "0006_quotas")]

    operations = [
        migrations.CreateModel(
            name="UsedState",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("time_ms", models.BigIntegerField()),
            ],
        ),
    ]
