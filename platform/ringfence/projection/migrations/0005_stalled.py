from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirror', '0004_minutes'),
    ]

    operations = [
        migrations.AddField(model_name='connector', name='stalled', field=models.BooleanField(default=False)),
        migrations.AddField(model_name='connector', name='usual_pause', field=models.IntegerField(default=0)),
    ]
