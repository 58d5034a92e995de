from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("history", "0001_initial")]

    operations = [
        migrations.AddField(model_name="configversion", name="user", field=models.TextField(default="")),
    ]
