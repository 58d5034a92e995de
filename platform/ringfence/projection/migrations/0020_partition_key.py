import hashlib

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import ringfence.projection.models


def fill(apps: Apps, _: BaseDatabaseSchemaEditor) -> None:
    model = apps.get_model("mirror", "SourceOffset")
    part = []
    for row in model.objects.only("partition").iterator(chunk_size=500):
        row.partition_key = hashlib.sha256(row.partition.encode()).hexdigest()
        part.append(row)
        if len(part) == 500:
            model.objects.bulk_update(part, ["partition_key"])
            part = []
    model.objects.bulk_update(part, ["partition_key"])


class Migration(migrations.Migration):
    dependencies = [("mirror", "0019_next_config")]

    operations = [
        migrations.RemoveConstraint("sourceoffset", "one_source_offset"),
        migrations.AddField(
            "sourceoffset",
            "partition_key",
            ringfence.projection.models.PartitionKeyField(default="", editable=False, max_length=64),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddConstraint(
            "sourceoffset",
            models.UniqueConstraint(fields=("connector", "partition_key"), name="one_source_offset"),
        ),
    ]
