"""Columns whose names Avro does not take: the expected fields are what the classes of Debezium 3.7 gave for them."""

import pytest

from ringfence.connectors.api import ConnectorError, Struct
from ringfence.connectors.builtin.postgres.settings import AVRO, AVRO_UNICODE, NONE, renaming
from tests.postgres.local import Database

NAMES = (
    ("a column", "a_column", "a_u0020column"),
    ("1st", "_1st", "_u0031st"),
    ("_x", "_x", "_u005fx"),
    ("a-b.c", "a_b_c", "a_u002db_u002ec"),
    ("Grüße", "Gr__e", "Gr_u00fc_u00dfe"),
    ("日本", "__", "_u65e5_u672c"),
    ("😀x", "__x", "_ud83d_ude00x"),
    ("ā", "_", "_u101"),
    ("\t9", "_9", "_u0099"),
    ("A1", "A1", "A1"),
)


@pytest.mark.parametrize(("column", "underscores", "codes"), NAMES)
def test_fields_have_the_names_that_debezium_gives_them(column: str, underscores: str, codes: str) -> None:
    assert (renaming(AVRO, {})(column), renaming(AVRO_UNICODE, {})(column)) == (underscores, codes)
    assert renaming(NONE, {"key.converter": "JsonConverter"})(column) == column
    assert renaming(NONE, {"key.converter": "io.confluent.connect.avro.AvroConverter"})(column) == underscores


def test_a_key_and_a_row_have_the_adjusted_names(database: Database) -> None:
    database.execute('CREATE TABLE t ("the id" integer PRIMARY KEY, "a-b" text)')
    run = database.run(field_name_adjustment_mode="avro", message_key_columns="public.t:the id")
    database.execute("INSERT INTO t VALUES (1, 'x')")
    database.await_all(run)
    (record,) = [record for record in run.records if record.topic == "local.public.t"]
    assert isinstance(record.key, Struct)
    assert isinstance(record.value, Struct)
    after = record.value["after"]
    assert isinstance(after, Struct)
    assert (record.key.schema.names, after.schema.names) == (("the_id",), ("the_id", "a_b"))


def test_two_columns_that_would_become_one_field_are_refused(database: Database) -> None:
    database.execute('CREATE TABLE t (id integer PRIMARY KEY, "a-b" text, a_b text)')
    run = database.run(field_name_adjustment_mode="avro")
    database.execute("INSERT INTO t VALUES (1, 'x', 'y')")
    with pytest.raises(ConnectorError, match="avro_unicode"):
        database.await_all(run)
