from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0022_troubles")]

    operations = [
        migrations.AddField(model, "request", models.CharField(max_length=100, default="", db_default=""))
        for model in ("logline", "generationrow")
    ]
