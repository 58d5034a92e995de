from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirror', '0016_task_endpoint'),
    ]

    operations = [
        migrations.CreateModel(
            name='Tombstone',
            fields=[
                ('connector', models.TextField(primary_key=True, serialize=False)),
                ('config_offset', models.BigIntegerField()),
                ('time_ms', models.BigIntegerField()),
            ],
        ),
    ]
