"""Every transform and predicate of Kafka Connect, on records with and without schemas, and what they refuse."""

from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal

from ringfence.connectors.api import SourceRecord, Struct
from ringfence.connectors.api.schemas import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    decimal,
    optional,
    single,
    struct,
)
from tests.connectors.golden.codec import Json, record_json
from tests.connectors.golden.records import FLAT_VALUE, FULL, INNER, MOMENT, PLAIN, SPARSE, record

LITERALS = """\
text
5
-129
40000
3000000000
1.5
+1e3
1e40
1e400
.5
5.
99999999999999999999
true
TRUE
false
null
@true@
nullx
2026-02-03
04:05:06.789Z
2026-02-03T04:05:06.789Z
2026-13-45
[1,2,3]
[1, 2.5]
[]
[1,a]
["a","b"]
[1,"a"]
[null,1]
[1,,2]
[1,2
[1,]
{}
{"a":1,"b":300}
{a:1}
{"a":null}
{"a":[1,2]}
{"a":1
{1:2}
a:b
"quoted"
a,b
["2026-02-03"]
[true,false]
{"a":1}x
-
+
1 2
12:30
@7@
1L
0x1F
[[1],[2]]
[1.5,2]
[3000000000,1]
[1,2.5,1e40]
a\\:b
""".replace("@", " ")
PATTERNS = """\
yyyy-MM-dd
yy/M/d
EEE, d MMM yyyy HH:mm:ss Z
EEEE d MMMM y
h:mm a
KK:mm aa
kk.mm
DDD yyyy
yyyyMMddHHmmssSSS
MM
s
SSSSSS
yyyy-MM-dd'T'HH:mm:ssX
u
G yyyy
'it''s' yyyy
yyyyy
LLL
HH:mm z
EE
S
yyy
''yyyy''
dd.MM.yyyy
"""
TEXTS = """\
yyyy-MM-dd|2026-02-30
yyyy-MM-dd|26-2-3x
yyyy-MM-dd|2026-14-03
yyyy-MM-dd|x
yy-MM-dd|26-02-03
yy-MM-dd|2026-02-03
yyyyMMdd|20260203
yyyyMMdd|2026023
EEE, d MMM yyyy HH:mm:ss Z|Tue, 3 Feb 2026 04:05:06 +0130
h:mm a|12:30 am
h:mm a|1:05 PM
yyyy-MM-dd HH:mm|2026-02-03  4:5
d MMMM yyyy|3 february 2026
S|5
SSS|1234
yyyy-MM-dd'T'HH:mm:ssX|2026-02-03T04:05:06Z
yyyy-MM-dd'T'HH:mm:ssX|2026-02-03T04:05:06+02
DDD yyyy|034 2026
kk|24
HH|25
HH:mm z|10:00 GMT+02:00
HH:mm z|10:00 UTC
yyyy-MM-dd HH:mm:ss.SSSSSS|2026-02-03 04:05:06.123456
"""


JAVA = "org.apache.kafka.connect.transforms."
NAMES = (
    *("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField"),
    *("SetSchemaMetadata", "TimestampConverter"),
)
SINGLE = ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")
PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")

Config = dict[str, str]
Given = tuple[str, Config, SourceRecord]


def transforms() -> Iterator[Given]:
    """Class (without its package), settings, record."""
    yield from _casts()
    yield from _fields()
    yield from _inserts()
    yield from _headers()
    yield from _masks()
    yield from _replaces()
    yield from _timestamps()
    yield from _rest()


def _casts() -> Iterator[Given]:
    types = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    numbers = ("i8", "i16", "i32", "i64", "f32", "f64", "yes", "text", "price", "day", "at", "when")
    for target in types:
        for given in (FULL, SPARSE):
            yield "Cast$Value", {"spec": ",".join(f"{field}:{target}" for field in numbers)}, record(given)
        for value in (1e300, -1e300, 3.99, -3.99, 300, -300, 2**40, True, "12", " 12 ", "x", "true", "1e3", "-7"):
            yield "Cast$Value", {"spec": target}, record(value)
            yield "Cast$Value", {"spec": f"i:{target}"}, record({"i": value, "other": 1})
        for value in ("NaN", "-Infinity", "1.5f", ".5", "5.", "+5", "0x10", "", "1_0", "99999999999999999999"):
            yield "Cast$Value", {"spec": target}, record(value, STRING)
        yield "Cast$Value", {"spec": target}, record(MOMENT, TIMESTAMP)
        yield "Cast$Value", {"spec": target}, record(date(2026, 2, 3), DATE)
        yield "Cast$Value", {"spec": target}, record(time(4, 5, 6), TIME)
        yield "Cast$Value", {"spec": target}, record(Decimal("1E+3"), decimal(-3))
        yield "Cast$Value", {"spec": target}, record(b"\x00\x01", BYTES)
        yield "Cast$Value", {"spec": target}, record(None, optional(INT32))
    for value in (1e7, 1.5e-3, 9.99e-4, 123456.789, 1e21, 0.0, -0.0, 3.4e38, 1e-45, 16777216.0, 0.1):
        yield "Cast$Value", {"spec": "string"}, record(value, FLOAT64)
        yield "Cast$Value", {"spec": "string"}, record(single(value), FLOAT32)
        yield "Cast$Value", {"spec": "string"}, record(value)
    yield "Cast$Key", {"spec": "int8"}, record("v", key=1000, key_schema=INT64.but(default=3, name="k"))
    yield "Cast$Value", {"spec": "i64:string", "replace.null.with.default": "false"}, record(SPARSE)
    yield "Cast$Value", {"spec": "i32:string", "replace.null.with.default": "false"}, record(SPARSE)
    yield "Cast$Value", {"spec": "none:int8,missing:int8"}, record(PLAIN)
    yield "Cast$Value", {"spec": "list:string"}, record(PLAIN)
    yield "Cast$Value", {"spec": "inner:string"}, record(FULL)
    yield "Cast$Value", {"spec": " i : STRING "}, record(PLAIN)
    for spec in ("", "a:bytes", "a:b:c", "int8,a:int8", "nothing", "a:array"):
        yield "Cast$Value", {"spec": spec}, record(PLAIN)


def _fields() -> Iterator[Given]:  # noqa: C901 - a loop for each kind of path
    for given in (FULL, SPARSE, FLAT_VALUE, PLAIN):
        for field in ("i32", "inner", "maybe", "when", "text", "deep", "nothing", "none"):
            for defaults in ("true", "false"):
                yield "ExtractField$Value", {"field": field, "replace.null.with.default": defaults}, record(given)
    v2 = {"field.syntax.version": "V2"}
    for path in ("inner.y", "inner.x", "inner.nothing", "text.y", "inner", "inner.y.z"):
        for given in (FULL, SPARSE):
            yield "ExtractField$Value", {"field": path, **v2}, record(given)
            yield "ExtractField$Value", {"field": path, **v2, "replace.null.with.default": "false"}, record(given)
    paths = "deep.`a.b` deep.a.b deep.c.x deep.b.c deep.`x.y`.z deep.b.c.d `deep`.a deep. `deep"
    for path in paths.split():
        for deep in (FLAT_VALUE, PLAIN):
            yield "ExtractField$Value", {"field": path, **v2}, record(deep)
    for path in (r"`a\`.b`.c", "`a`b`.c", "``", "a``.b", "`a`", r"`a\`"):
        mapping = {"a`.b": {"c": 1}, "a`b": {"c": 2}, "": 3, "a``": {"b": 4}, "a": 5}
        yield "ExtractField$Value", {"field": path, **v2}, record(mapping)
    for nothing in (record(None), record(None, FULL.schema.but(optional=True)), record("text"), record(5, INT64)):
        yield "ExtractField$Value", {"field": "i32"}, nothing
        yield "HoistField$Value", {"field": "whole"}, nothing
        yield "Flatten$Value", {}, nothing
        yield "ValueToKey", {"fields": "i32"}, nothing
    yield "ExtractField$Key", {"field": "x"}, record("v", key=Struct(INNER, {"x": 1, "y": "b"}))
    yield "ExtractField$Key", {"field": "x", "field.syntax.version": "v3"}, record("v", key={"x": 1})
    yield "ExtractField$Value", {}, record(PLAIN)
    for whole in (FULL, PLAIN, 5, "text"):
        yield "HoistField$Value", {"field": "whole"}, record(whole)
        yield "HoistField$Key", {"field": "whole"}, record(whole, key="k", key_schema=STRING)
    for given in (FULL, SPARSE, FLAT_VALUE, PLAIN):
        yield "Flatten$Value", {}, record(given)
        yield "Flatten$Value", {"delimiter": "_"}, record(given)
        yield "ValueToKey", {"fields": "i32,maybe"}, record(given)
        yield "ValueToKey", {"fields": "text", "replace.null.with.default": "false"}, record(given)
        yield "ValueToKey", {"fields": "i32,f64", "replace.null.with.default": "false"}, record(given)
    defaulted = struct({"a": struct({"n": INT32, "s": optional(STRING)}).but(optional=True)})
    inner = defaulted.fields[0].schema
    defaulted = struct({"a": inner.but(default=Struct(inner, {"n": 4})), "b": INT8})
    yield "Flatten$Value", {}, record(Struct(defaulted, {"a": {"n": 1, "s": "x"}, "b": 2}))
    yield "Flatten$Value", {}, record(Struct(defaulted, {"b": 2}))
    yield "Flatten$Key", {}, record("v", key={"a": {"b": 1}})
    yield "ValueToKey", {"fields": ""}, record(PLAIN)


def _inserts() -> Iterator[Given]:
    every = {"topic.field": "t", "partition.field": "p!", "timestamp.field": "ts?", "static.field": "s!"}
    for given in (FULL, SPARSE, PLAIN, None, "text"):
        yield "InsertField$Value", {**every, "static.value": "fixed"}, record(given)
        yield "InsertField$Value", {"timestamp.field": "ts"}, record(given, timestamp=None)
        yield "InsertField$Value", {"topic.field": "text!"}, record(given)
        yield "InsertField$Value", {"offset.field": "o"}, record(given)
    yield "InsertField$Value", {"topic.field": "t", "replace.null.with.default": "false"}, record(SPARSE)
    yield "InsertField$Value", {"topic.field": "t"}, record(None, FULL.schema.but(optional=True))
    yield "InsertField$Key", {"topic.field": "t"}, record(None, key={"a": 1})
    yield "InsertField$Key", {"topic.field": "t"}, record("v", key=Struct(INNER, {"x": 1, "y": "b"}))
    yield "InsertField$Value", {}, record(PLAIN)
    yield "InsertField$Value", {"static.field": "s"}, record(PLAIN)


def _headers() -> Iterator[Given]:
    for names in ("h", "n, x", "x", ""):
        yield "DropHeaders", {"headers": names}, record("v")
    for literal in LITERALS.splitlines():
        yield "InsertHeader", {"header": "made", "value.literal": literal}, record("v")
    yield "InsertHeader", {"header": "", "value.literal": "x"}, record("v")
    for operation in ("move", "copy"):
        for given in (FULL, SPARSE, PLAIN):
            base = {"fields": "text,i32", "headers": "a,b", "operation": operation}
            yield "HeaderFrom$Value", base, record(given)
            yield "HeaderFrom$Value", {**base, "replace.null.with.default": "false"}, record(given)
        yield "HeaderFrom$Value", {"fields": "nothing", "headers": "a", "operation": operation}, record(FULL)
        yield "HeaderFrom$Key", {"fields": "x", "headers": "a", "operation": operation}, record("v", key={"x": 1})
        yield "HeaderFrom$Value", {"fields": "x", "headers": "a", "operation": operation}, record(None)
    yield "HeaderFrom$Value", {"fields": "a,b", "headers": "a", "operation": "move"}, record(PLAIN)
    yield "HeaderFrom$Value", {"fields": "a", "headers": "a", "operation": "steal"}, record(PLAIN)


def _masks() -> Iterator[Given]:
    fields = ("i8", "i16", "i32", "i64", "f32", "f64", "yes", "text", "raw", "price", "day", "at", "when")
    more = ("maybe", "list", "counts", "inner", "i", "big", "f", "none", "deep", "nothing")
    for field in (*fields, *more):
        for given in (FULL, SPARSE, PLAIN):
            yield "MaskField$Value", {"fields": field}, record(given)
            yield "MaskField$Value", {"fields": field, "replacement": "42"}, record(given)
        yield "MaskField$Value", {"fields": field, "replacement": "x"}, record(FULL)
        yield "MaskField$Value", {"fields": field, "replacement": "-3.7"}, record(FULL)
        yield "MaskField$Value", {"fields": field, "replace.null.with.default": "false"}, record(SPARSE)
    yield "MaskField$Value", {"fields": "i8", "replacement": "300"}, record(FULL)
    yield "MaskField$Key", {"fields": "x"}, record("v", key={"x": 1, "y": 2})
    yield "MaskField$Value", {"fields": "x"}, record(None)
    yield "MaskField$Value", {"fields": "i8", "replacement": ""}, record(FULL)
    yield "MaskField$Value", {"fields": ""}, record(FULL)


def _replaces() -> Iterator[Given]:
    for given in (FULL, SPARSE, PLAIN, None, "text"):
        for config in (
            {"exclude": "i8,text,deep"},
            {"include": "i32,text,i"},
            {"include": "i32,text,i", "exclude": "text"},
            {"renames": "i32:number,text:words,i:j"},
            {"renames": "i32:number", "include": "i32,maybe", "replace.null.with.default": "false"},
            {},
        ):
            yield "ReplaceField$Value", config, record(given)
    yield "ReplaceField$Key", {"renames": "x:z"}, record("v", key=Struct(INNER, {"x": 1, "y": "b"}))
    for renames in ("a", "a:b:c", "a:", ":b"):
        yield "ReplaceField$Value", {"renames": renames}, record(PLAIN)
    for given in (FULL, SPARSE):
        yield "SetSchemaMetadata$Value", {"schema.name": "n", "schema.version": "9"}, record(given)
        yield "SetSchemaMetadata$Value", {"schema.version": "9", "replace.null.with.default": "false"}, record(given)
    for odd in (record(5, INT64), record(PLAIN), record(None), record(None, optional(INT64))):
        yield "SetSchemaMetadata$Value", {"schema.name": "n"}, odd
    yield "SetSchemaMetadata$Key", {"schema.name": "n"}, record("v", key=5, key_schema=INT8.but(default=3))
    yield "SetSchemaMetadata$Value", {}, record(FULL)
    yield "SetSchemaMetadata$Value", {"schema.version": "x"}, record(FULL)


def _timestamps() -> Iterator[Given]:  # noqa: C901 - a loop for each kind of value
    pattern = {"format": "yyyy-MM-dd'T'HH:mm:ss.SSS"}
    targets = ("string", "unix", "Date", "Time", "Timestamp")
    for target in targets:
        for field in ("i64", "day", "at", "when", "text", "i32", "maybe", "missing"):
            for given in (FULL, SPARSE):
                yield "TimestampConverter$Value", {"field": field, "target.type": target, **pattern}, record(given)
        for precision in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
            config = {"target.type": target, "unix.precision": precision, **pattern}
            for number in (0, 1_700_000_000, -1, -1_234_567, 1_700_000_000_123_456):
                if precision != "seconds" or number < 10**12:  # there beyond the year 9999
                    yield "TimestampConverter$Value", config, record(number, INT64)
            yield "TimestampConverter$Value", config, record(MOMENT, optional(TIMESTAMP))
            yield "TimestampConverter$Value", config, record(MOMENT)
            yield "TimestampConverter$Value", config, record(1_700_000_000)
        yield "TimestampConverter$Value", {"field": "big", "target.type": target, **pattern}, record(PLAIN)
        yield "TimestampConverter$Value", {"field": "none", "target.type": target, **pattern}, record(PLAIN)
        yield "TimestampConverter$Value", {"field": "f", "target.type": target, **pattern}, record(PLAIN)
        yield "TimestampConverter$Value", {"target.type": target, **pattern}, record(None)
        yield "TimestampConverter$Value", {"target.type": target, **pattern}, record(None, optional(STRING))
        yield "TimestampConverter$Value", {"target.type": target}, record("2026-02-03", STRING)
        yield (
            "TimestampConverter$Value",
            {"field": "x", "target.type": target, **pattern},
            record(None, INNER),
        )
    moments = (0, 1_700_000_000_123, 1_456_704_000_000, -1, 43_200_000)
    for shape in PATTERNS.splitlines():
        config = {"target.type": "string", "format": shape}
        for moment in moments:
            yield "TimestampConverter$Value", config, record(moment, INT64)
    for line in TEXTS.splitlines():
        shape, text = line.split("|")
        config = {"target.type": "unix", "format": shape}
        yield "TimestampConverter$Value", config, record(text, STRING)
        yield "TimestampConverter$Value", config, record(text)
    for config in ({"target.type": "string"}, {"target.type": "x"}, {"target.type": "string", "format": "b"}, {}):
        yield "TimestampConverter$Value", config, record(5, INT64)
    yield (
        "TimestampConverter$Key",
        {"target.type": "Date"},
        record("v", key=86_400_001, key_schema=INT64.but(default=1)),
    )
    yield "TimestampConverter$Value", {"target.type": "unix"}, record(True, BOOLEAN)
    yield "TimestampConverter$Value", {"target.type": "unix"}, record(1.5, FLOAT64)
    for config in (
        {},
        {"topic.format": "a.${topic}.${timestamp}.${topic}"},
        {"timestamp.format": "yyyy"},
        {"topic.format": "$1"},
    ):
        yield "TimestampRouter", config, record("v")
        yield "TimestampRouter", config, record("v", timestamp=None)
    yield "TimestampRouter", {"timestamp.format": "bb"}, record("v")


def _rest() -> Iterator[Given]:
    yield "Filter", {}, record("v")
    for regex, replacement in (
        ("(.*)", "x-$1"),
        ("fl(?<r>.*)", "${r}"),
        ("ights", "x"),
        ("a*?", "x"),
        ("(f)(l)?.*", "$12"),
    ):
        yield "RegexRouter", {"regex": regex, "replacement": replacement}, record("v")
    yield "RegexRouter", {"regex": "(", "replacement": "x"}, record("v")


def predicates() -> Iterator[Given]:
    for name in ("h", "H", "x", ""):
        yield "HasHeaderKey", {"name": name}, record("v")
    for value in ("v", None):
        yield "RecordIsTombstone", {}, record(value)
    for pattern in ("flights", "fl.*", "ights", "(", ""):
        yield "TopicNameMatches", {"pattern": pattern}, record("v")


def cases() -> Iterator[Json]:
    for name, config, given in transforms():
        yield {"kind": "transform", "class": JAVA + name, "config": config, "record": record_json(given)}
    for name, config, given in predicates():
        class_name = f"{JAVA}predicates.{name}"
        yield {"kind": "predicate", "class": class_name, "config": config, "record": record_json(given)}
    for name in (*(f"{each}${half}" for each in NAMES for half in ("Key", "Value")), *SINGLE):
        yield {"kind": "settings", "class": JAVA + name}
    for name in PREDICATES:
        yield {"kind": "settings", "class": f"{JAVA}predicates.{name}"}
