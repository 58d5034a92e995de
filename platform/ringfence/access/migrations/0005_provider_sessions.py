from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("access", "0004_single_sign_on")]

    operations = [
        migrations.CreateModel(
            name="ProviderSession",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key_hash", models.CharField(max_length=40, unique=True)),
                ("issuer", models.TextField()),
                ("subject", models.TextField(db_index=True)),
                ("sid", models.TextField(db_index=True, default="")),
            ],
        ),
        migrations.CreateModel(
            name="UsedLogoutToken",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("time_ms", models.BigIntegerField()),
            ],
        ),
    ]
