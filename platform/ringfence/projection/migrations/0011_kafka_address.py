from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0010_shown_offset")]

    operations = [
        migrations.AddField(model_name="clusterinfo", name="kafka_bootstrap", field=models.TextField(default="")),
        migrations.AddField(model_name="clusterinfo", name="kafka_protocol", field=models.TextField(default="")),
    ]
