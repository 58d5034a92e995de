"""Schemas, values and records as the JSON that Golden.java reads and writes: values tagged with their Java type."""

import base64
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ringfence.connectors.api import Schema, SchemaAndValue, SchemaType, SourceRecord, Struct
from ringfence.connectors.api.schemas import DATE_NAME, TIME_NAME, single
from ringfence.connectors.sdk.values.moments import millis, to_date, to_datetime, to_time

Json = Any


def schema_json(schema: Schema | None) -> Json:
    if schema is None:
        return None
    shown: dict[str, Json] = {"type": schema.type.value}
    if schema.type is SchemaType.STRUCT:
        shown["fields"] = [{"name": name, "schema": schema_json(inner)} for name, _, inner in schema.fields]
    if schema.type is SchemaType.MAP:
        shown["keys"] = schema_json(schema.keys)
    if schema.type in (SchemaType.MAP, SchemaType.ARRAY):
        shown["values"] = schema_json(schema.values)
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            shown[name] = getattr(schema, name)
    if schema.parameters:
        shown["parameters"] = dict(schema.parameters)
    if schema.optional:
        shown["optional"] = True
    if schema.default is not None:
        shown["default"] = value_json(schema, schema.default)
    return shown


def schema_of(shown: Json) -> Schema | None:
    if shown is None:
        return None
    fields = [(field["name"], schema_of(field["schema"])) for field in shown.get("fields", ())]
    schema = Schema(
        SchemaType(shown["type"]),
        optional=shown.get("optional", False),
        name=shown.get("name"),
        version=shown.get("version"),
        doc=shown.get("doc"),
        parameters=shown.get("parameters"),
        fields=[(name, inner) for name, inner in fields if inner is not None],
        keys=schema_of(shown.get("keys")),
        values=schema_of(shown.get("values")),
    )
    return schema.but(default=value_of(schema, shown["default"])) if "default" in shown else schema


def value_json(schema: Schema | None, value: object) -> Json:  # noqa: C901 - a case for each type
    if value is None:
        return None
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.values, strict=True)
        return {"struct": {field.name: value_json(field.schema, each) for field, each in pairs}}
    if isinstance(value, datetime | date | time):
        return {"date": millis(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, int):
        return {schema.type.value if schema is not None else "int64": value}
    if isinstance(value, float):
        shown = str(value).replace("nan", "NaN").replace("inf", "Infinity")
        return {schema.type.value if schema is not None else "float64": shown}
    if isinstance(value, str):
        return {"string": value}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
    if isinstance(value, list | tuple):
        return {"list": [value_json(values, each) for each in value]}
    assert isinstance(value, Mapping), type(value)
    return {"map": [[value_json(keys, key), value_json(values, each)] for key, each in value.items()]}


def value_of(schema: Schema | None, shown: Json) -> object:
    if shown is None:
        return None
    ((tag, held),) = shown.items()
    match tag:
        case "float32":
            return single(float(held))
        case "float64":
            return float(held)
        case "bytes":
            return base64.b64decode(held)
        case "decimal":
            return Decimal(held)
        case "date":
            name = schema.name if schema is not None else None
            return {DATE_NAME: to_date, TIME_NAME: to_time}.get(str(name), to_datetime)(held)
        case "list":
            return [value_of(schema.values if schema else None, each) for each in held]
        case "map":
            keys, values = (schema.keys, schema.values) if schema else (None, None)
            return {value_of(keys, key): value_of(values, each) for key, each in held}
        case "struct":
            assert schema is not None
            values_ = [(field, held.get(field.name)) for field in schema.fields]
            return Struct.of(schema, [value_of(field.schema, each) for field, each in values_])
        case _:
            return held


def record_json(record: SourceRecord) -> Json:
    headers = []
    for name, value in record.headers:
        held = value if isinstance(value, SchemaAndValue) else SchemaAndValue(None, value)
        headers.append({"name": name, "schema": schema_json(held.schema), "value": value_json(held.schema, held.value)})
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key_schema": schema_json(record.key_schema),
        "key": value_json(record.key_schema, record.key),
        "value_schema": schema_json(record.value_schema),
        "value": value_json(record.value_schema, record.value),
        "headers": headers,
    }


def record_of(shown: Json) -> SourceRecord:
    key, value = schema_of(shown["key_schema"]), schema_of(shown["value_schema"])
    headers = []
    for header in shown["headers"]:
        schema = schema_of(header["schema"])
        headers.append((header["name"], SchemaAndValue(schema, value_of(schema, header["value"]))))
    return SourceRecord(
        {},
        {},
        shown["topic"],
        value_of(value, shown["value"]),
        value_of(key, shown["key"]),
        headers,
        shown["timestamp"],
        shown["partition"],
        key,
        value,
    )


def comparable(shown: Json) -> Json:
    """What must be equal on both sides: not the order of a map, nor which of its number types Java took of many."""
    if isinstance(shown, list):
        return [comparable(each) for each in shown]
    if not isinstance(shown, dict):
        return shown
    if len(shown) == 1:
        ((tag, held),) = shown.items()
        if tag in ("int8", "int16", "int32", "int64") and isinstance(held, int):
            return {"int": held}
        if tag in ("float32", "float64") and isinstance(held, str):
            return {"float": repr(float(held))}
        if tag == "map":
            return {"map": sorted(comparable(held), key=repr)}
    return {name: comparable(each) for name, each in shown.items()}


def difference(ours: Json, theirs: Json, path: str = "") -> str:
    """Where two answers differ first."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            if ours.get(name, "absent") != theirs.get(name, "absent"):
                return difference(ours.get(name, "absent"), theirs.get(name, "absent"), f"{path}.{name}")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if mine != other:
                return difference(mine, other, f"{path}[{number}]")
    return f"{path}: {str(ours)[:150]}, there {str(theirs)[:150]}"
