"""Converts a DataFrame with the columns of Spark's own Kafka sink to the columns that the parts are written from."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users write it
from pyspark.sql import types as spark

from ringfence.spark.errors import SinkError

_TEXT: Final = (spark.StringType, spark.BinaryType)
_KNOWN: Final = ("key", "value", "headers", "topic", "partition")
_BYTES: Final = ("key", "value")


def shape(rows: DataFrame, topic: str | None) -> DataFrame:
    """Return the known columns of `rows`, and `digest`, a hash of them all. Raises `SinkError`."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    if "value" not in types:
        raise SinkError(f"There is no column value, only {', '.join(types)}: select to_json(struct(*)) AS value.")
    for name in _BYTES:
        if name in types and not isinstance(types[name], _TEXT):
            kind = types[name].simpleString()
            raise SinkError(
                f"The column {name} is {kind}: convert it to a string or binary, for example by CAST({name} AS STRING)."
            )
    if topic is None and "topic" not in types:
        raise SinkError("There is no column topic: set a topic for the sink, or select one.")
    if "topic" in types and not isinstance(types["topic"], spark.StringType):
        raise SinkError("The column topic is not a string.")
    if "partition" in types and not isinstance(types["partition"], spark.IntegerType):
        raise SinkError("The column partition is not an int: CAST(partition AS INT).")
    if "headers" in types and not _are_headers(types["headers"]):
        raise SinkError("The column headers is not an array<struct<key:string,value:binary>>.")
    names = [name for name in _KNOWN if name in types and not (name == "topic" and topic is not None)]
    columns = [F.col(name).cast("binary").alias(name) if name in _BYTES else F.col(name) for name in names]
    selected = rows.select(*columns)
    return selected.select("*", F.xxhash64(*names).alias("digest"))


def _are_headers(kind: spark.DataType) -> bool:
    if not (isinstance(kind, spark.ArrayType) and isinstance(kind.elementType, spark.StructType)):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", spark.StringType), ("value", spark.BinaryType)]
