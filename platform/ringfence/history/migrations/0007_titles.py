from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('history', '0006_plugin_installations'),
    ]

    operations = [
        migrations.AddField(
            model_name='workerplugins',
            name='titles',
            field=models.TextField(db_default='{}', default='{}'),
        ),
    ]
