from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0009_topic_memory")]

    operations = [
        migrations.AddField(
            model_name="topicposition",
            name="shown_offset",
            field=models.BigIntegerField(default=0),
        ),
    ]
