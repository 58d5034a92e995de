from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0024_data_age")]

    operations = [
        migrations.CreateModel(
            name="Suspicion",
            fields=[
                ("worker", models.TextField(primary_key=True, serialize=False)),
                ("incarnation", models.TextField()),
                ("trust", models.CharField(max_length=16)),
                ("times", models.IntegerField(default=0)),
                ("since_ms", models.BigIntegerField(default=0)),
            ],
        ),
    ]
