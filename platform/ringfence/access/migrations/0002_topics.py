from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("access", "0001_initial")]

    operations = [
        migrations.AddField("grant", "topics", models.TextField(default="*")),
        migrations.AddField("token", "topics", models.TextField(default="*")),
    ]
