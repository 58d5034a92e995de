from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirror', '0015_history_points'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='endpoint',
            field=models.TextField(default=''),
        ),
    ]
