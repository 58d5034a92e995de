from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0020_partition_key")]

    operations = [
        migrations.AddField(model_name="task", name="retry", field=models.TextField(default="")),
    ]
