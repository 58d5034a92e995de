from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("access", "0002_topics")]

    operations = [
        migrations.CreateModel(
            name="LoginSession",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key_hash", models.CharField(max_length=40, unique=True)),
                ("account", models.TextField(db_index=True)),
                ("via", models.TextField()),
                ("address", models.TextField()),
                ("agent", models.TextField()),
                ("created_ms", models.BigIntegerField()),
                ("seen_ms", models.BigIntegerField()),
            ],
        ),
    ]
