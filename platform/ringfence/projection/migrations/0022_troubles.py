from django.db import migrations, models

_TASK = (
    ("incarnation", models.TextField(default="")),
    ("failed_ms", models.BigIntegerField(default=0)),
    ("failed_trace", models.TextField(default="")),
    ("failed_record", models.TextField(default="")),
    ("last_answer_ms", models.BigIntegerField(default=0)),
    ("data_as_of_ms", models.BigIntegerField(default=0)),
)
_CONNECTOR = (
    ("health_since_ms", models.BigIntegerField(default=0)),
    ("trouble", models.CharField(max_length=16, default="")),
    ("trouble_since_ms", models.BigIntegerField(default=0)),
)
_TOPIC = (
    ("topic_id", models.CharField(default="", max_length=32)),
    ("replaced_ms", models.BigIntegerField(default=0)),
)


class Migration(migrations.Migration):
    dependencies = [("mirror", "0021_poll_retry")]

    operations = [
        *(migrations.AddField(model_name="task", name=name, field=field) for name, field in _TASK),
        *(migrations.AddField(model_name="connector", name=name, field=field) for name, field in _CONNECTOR),
        *(migrations.AddField(model_name="activetopic", name=name, field=field) for name, field in _TOPIC),
    ]
