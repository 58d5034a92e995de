"""Source offsets as rows of the platform's own PostgreSQL."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.postgres import Postgres

_WRITE: Final = """
import os, sys
import django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
django.setup()
from django.core.management import call_command
from django.db import connection

call_command("migrate", "mirror", "0019", verbosity=0)
with connection.cursor() as cursor:
    row = ["c", '{"file":"old"}', '{"line":1}']
    table = "mirror_sourceoffset"
    cursor.execute(f"INSERT INTO {table} (connector, partition, \\"offset\\", updated_ms) VALUES (%s, %s, %s, 0)", row)
call_command("migrate", verbosity=0)

import hashlib, json
from ringfence.fencing.offsets.source_offsets import encode_key
from ringfence.projection import offset_rows
from ringfence.projection.models import SourceOffset
from ringfence.fencing.kafka.consumer import LogRecord

def write(file, value):
    data = None if value is None else json.dumps(value).encode()
    offset_rows.write([LogRecord(0, 0, encode_key("c", {"file": file}), data, 1)])

long = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250))  # hardly compresses
write(long + "a", {"line": 2})
write(long + "b", {"line": 3})
write("old", {"line": 4})
write(long + "a", {"line": 5})
write(long + "b", None)
rows = SourceOffset.objects.values_list("partition", "offset")
print(json.dumps({json.loads(partition)["file"][-3:]: json.loads(offset)["line"] for partition, offset in rows}))
"""


def test_a_long_source_partition_has_a_row_like_others(server: Postgres, tmp_path: Path) -> None:
    server.query("CREATE DATABASE long_partitions")
    url = f"postgres://ringfence@127.0.0.1:{server.port}/long_partitions"
    done = subprocess.run(
        [sys.executable, "-c", _WRITE],
        env={**os.environ, "RINGFENCE_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "ringfence.settings"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert sorted(shown.values()) == [4, 5]
    assert shown["old"] == 4
