from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirror', '0003_topics_levels_and_versions'),
    ]

    operations = [
        migrations.RenameModel(old_name='MetricCell', new_name='Minute'),
        migrations.RemoveConstraint(model_name='minute', name='one_cell'),
        migrations.RemoveIndex(model_name='minute', name='cell_age'),
        *(
            migrations.AddField(model_name='minute', name=name, field=models.CharField(default='', max_length=16))
            for name in ('state', 'began')
        ),
        *(
            migrations.AddField(model_name='minute', name=name, field=models.IntegerField(default=0))
            for name in ('fences', 'restarts', 'failed')
        ),
        migrations.AddIndex(model_name='minute', index=models.Index(fields=['minute'], name='minute_age')),
        migrations.AddConstraint(
            model_name='minute',
            constraint=models.UniqueConstraint(fields=('connector', 'minute', 'task'), name='one_minute'),
        ),
    ]
