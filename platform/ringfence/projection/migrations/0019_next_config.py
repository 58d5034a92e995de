from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0018_topic_grant")]

    operations = [
        migrations.AddField(model_name="task", name="next_config", field=models.TextField(default="")),
    ]
