"""Tables with a column of each type, and changes of them, from a seed: for PostgresSource and Debezium alike."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

SCHEMA: Final = "gen"
_LONG: Final = 2300
"""Characters of a value that the server stores out of line (TOAST)."""


class Column(NamedTuple):
    """A type, and values of it as SQL literals. toast: a long value, if the type has any."""

    type: str
    values: Sequence[str]
    toast: str | None = None


TYPES_SQL: Final = f"""
CREATE EXTENSION citext; CREATE EXTENSION hstore; CREATE EXTENSION ltree; CREATE EXTENSION isn;
CREATE SCHEMA {SCHEMA};
CREATE TYPE {SCHEMA}.mood AS ENUM ('sad', 'ok', 'it''s, fine');
CREATE DOMAIN {SCHEMA}.percent AS integer CHECK (value BETWEEN 0 AND 100);
CREATE DOMAIN {SCHEMA}.share AS {SCHEMA}.percent;
CREATE DOMAIN {SCHEMA}.amount AS numeric(10, 2);
CREATE DOMAIN {SCHEMA}.label AS varchar(10);
CREATE DOMAIN {SCHEMA}.feeling AS {SCHEMA}.mood;
CREATE DOMAIN {SCHEMA}.counts AS integer[];
CREATE DOMAIN {SCHEMA}.moment AS timestamp(3);
CREATE TYPE {SCHEMA}.pair AS (a integer, b text);
CREATE DOMAIN {SCHEMA}.couple AS {SCHEMA}.pair;
"""

_TEXTS: Final = (
    "''", "' '", "'NULL'", "'null'", r"E'a\tb\nc\rd'", r"'\N'", r"""'{"a": 1}'""", "'it''s'", "'é'", r"E'e\u0301'",
    r"E'\U0001F600'", r"E'\uFEFF'", r"E'\x7f'", r"E'\x01\x1f\"\\/'", "repeat('x', 300)", "'%b %s'", "'\u2028'",
)  # fmt: skip
_INTS: Final = ("0", "-1", "1", "42")
_DATES: Final = (
    "2024-02-29", "0001-01-01", "1582-10-10", "1582-10-04", "1969-12-31", "9999-12-31", "12345-01-02", "5874897-12-31",
    "0044-03-15 BC", "0001-12-31 BC", "4713-01-01 BC", "infinity", "-infinity",
)  # fmt: skip
_MOMENTS: Final = (
    "2024-02-29 12:34:56", "2024-02-29 12:34:56.789", "2024-02-29 12:34:56.123456", "0001-01-01 00:00:00",
    "1582-10-10 01:02:03", "1900-01-01 00:00:00.001", "1969-12-31 23:59:59.999999", "9999-12-31 23:59:59.999",
    "12345-01-02 03:04:05", "0044-03-15 00:00:00 BC", "0044-03-15 01:02:03.5 BC", "4713-01-01 00:00:00 BC", "infinity",
    "-infinity", "2024-03-10 02:30:00",
)  # fmt: skip
_TIMES: Final = ("00:00:00", "12:34:56.789", "12:34:56.123456", "23:59:59.999999", "24:00:00", "00:00:00.000001")
_SPANS: Final = (
    "1 mon 2 days", "0", "-1 years -2 mons +3 days -04:05:06.789", "00:00:00.000001", "178000000 years",
    "-178000000 years", "1 year 2 mons 3 days 04:05:06.789", "100:00:00", "-00:00:01.5", "23 hours", "30 days",
    "-13 mons",
)  # fmt: skip
_JSONS: Final = (
    "null",
    "[]",
    "{}",
    '"a"',
    "1e400",
    '{"a": 1, "a": 2}',
    "123456789012345678901234567890",
    '{"b":  [1, null]}',
    r'"\u00e9"',
    '"grüße"',
)
_NUMS: Final = ("0", "0.00", "1.50", "-0.01", "99999.99", "-99999.99", "100")


def _quoted(*values: str) -> tuple[str, ...]:
    return tuple("'" + value.replace("'", "''") + "'" for value in values)


SCALARS: Final[dict[str, Column]] = {
    "flag": Column("boolean", ("true", "false")),
    "i2": Column("smallint", (*_INTS, "32767", "-32768")),
    "i4": Column("integer", (*_INTS, "2147483647", "-2147483648")),
    "i8": Column("bigint", (*_INTS, "9223372036854775807", "-9223372036854775808", "9007199254740993")),
    "o": Column("oid", ("0", "7", "4294967295")),
    "r": Column("real", _quoted("0", "-0", "1.5", "0.1", "3.4028235e38", "1e-45", "NaN", "Infinity", "-Infinity")),
    "d": Column(
        "double precision",
        _quoted("0", "-0", "0.1", "1e22", "5e-324", "1.7976931348623157e308", "NaN", "Infinity", "-Infinity"),
    ),
    "n72": Column("numeric(7, 2)", _quoted(*_NUMS)),
    "n38": Column("numeric(38, 0)", ("0", "-1", "9" * 38, "-" + "9" * 38)),
    "n3818": Column("numeric(38, 18)", ("0", "9" * 20 + "." + "9" * 18, "-0.000000000000000001", "1.5")),
    "free": Column(
        "numeric", ("0", "0.00", "1.2300", "-123.4500", "100", "1e20", "1e-20", "1" + "0" * 60, "-0.000001")
    ),
    "m": Column("money", _quoted("0", "12.34", "-1234567.89", "92233720368547758.07")),
    "t": Column("text", _TEXTS, f"repeat('t', {_LONG})"),
    "v": Column("varchar(3000)", _TEXTS, f"repeat('v', {_LONG})"),
    "vfree": Column("varchar", _TEXTS, f"repeat('w', {_LONG})"),
    "c5": Column("char(5)", _quoted("", "ab", "é", "abcde")),
    "ch": Column('"char"', _quoted("", "c", "\\")),
    "na": Column("name", _quoted("", "a name", "x" * 60)),
    "cit": Column("citext", _TEXTS, f"repeat('c', {_LONG})"),
    "b": Column("bytea", _quoted("\\x", "\\x00", "\\xff00fe", "\\x5c27"), f"decode(repeat('ab', {_LONG}), 'hex')"),
    "bit1": Column("bit(1)", ("B'0'", "B'1'")),
    "bit12": Column("bit(12)", ("B'101010101111'", "B'000000000000'", "B'000000000001'", "B'100000000000'")),
    "vbit": Column("bit varying", ("B''", "B'1'", "B'0'", "B'10101'", f"B'1{'0' * 70}1'", "B'00000000000000001'")),
    "vbit9": Column("bit varying(9)", ("B''", "B'1'", "B'101010101'")),
    "day": Column("date", _quoted(*_DATES)),
    "ti": Column("time", _quoted(*_TIMES)),
    "ti0": Column("time(0)", _quoted(*_TIMES)),
    "ti3": Column("time(3)", _quoted(*_TIMES)),
    "tz": Column(
        "timetz", _quoted("12:34:56.123456+02", "00:00:00+00", "01:02:03.5-03:30", "23:59:59-15:59", "24:00:00+01")
    ),
    "ts": Column("timestamp", _quoted(*_MOMENTS)),
    "ts0": Column("timestamp(0)", _quoted(*_MOMENTS)),
    "ts3": Column("timestamp(3)", _quoted(*_MOMENTS)),
    "ts5": Column("timestamp(5)", _quoted(*_MOMENTS)),
    "tsz": Column("timestamptz", _quoted(*(m if "inf" in m or "BC" in m else f"{m}+05:30" for m in _MOMENTS))),
    "tsz0": Column("timestamptz(0)", _quoted(*_MOMENTS)),
    "tsz3": Column("timestamptz(3)", _quoted(*_MOMENTS)),
    "span": Column("interval", _quoted(*_SPANS)),
    "span0": Column("interval(0)", _quoted(*_SPANS)),
    "spanym": Column("interval year to month", _quoted("14 mons", "-1 mon", "0")),
    "u": Column("uuid", _quoted("6ecd8c99-4036-403d-bf84-cf8400f67836", "0" * 8 + "-0000-0000-0000-" + "0" * 12)),
    "j": Column("json", _quoted(*_JSONS), f"to_json(repeat('j', {_LONG}))"),
    "jb": Column("jsonb", _quoted(*_JSONS[:4], *_JSONS[5:]), f"to_jsonb(repeat('j', {_LONG}))"),
    "x": Column("xml", _quoted("<a/>", "<a>b</a>", "text only"), f"('<a>' || repeat('x', {_LONG}) || '</a>')::xml"),
    "ip": Column("inet", _quoted("10.1.2.3/24", "10.1.2.3", "::1", "fe80::1/64")),
    "net": Column("cidr", _quoted("10.0.0.0/8", "::/0")),
    "mac": Column("macaddr", _quoted("08:00:2b:01:02:03")),
    "mac8": Column("macaddr8", _quoted("08:00:2b:01:02:03:04:05")),
    "r4": Column("int4range", _quoted("[1,5)", "empty", "(,)", "[3,]")),
    "r8": Column("int8range", _quoted("[1,5)", "empty")),
    "rn": Column("numrange", _quoted("[1.5,5)", "empty", "(1.0,2.50]")),
    "rd": Column("daterange", _quoted("[2024-01-01,2024-02-01)", "(,infinity)")),
    "rts": Column("tsrange", _quoted("[2024-01-01,2024-02-01 01:02:03.5)", "empty")),
    "rtz": Column("tstzrange", _quoted("[2024-01-01 00:00:00+02,2024-02-01)", "empty")),
    "mr4": Column("int4multirange", _quoted("{[1,3),[5,7)}", "{}")),
    "mrd": Column("datemultirange", _quoted("{[2024-01-01,2024-02-01)}")),
    "vec": Column("tsvector", _quoted("a fat cat", "a:1A fat:2B,4C", "")),
    "query": Column("tsquery", _quoted("a & b", "")),
    "p": Column("point", _quoted("(1.5,-2)", "(0,0)", "(1e300,-1e-300)", "(NaN,Infinity)")),
    "li": Column("line", _quoted("{1,2,3}")),
    "ls": Column("lseg", _quoted("[(1,2),(3,4)]")),
    "bx": Column("box", _quoted("(3,4),(1,2)")),
    "pa": Column("path", _quoted("[(1,2),(3,4)]", "((1,2),(3,4))")),
    "po": Column("polygon", _quoted("((1,2),(3,4),(5,6))")),
    "ci": Column("circle", _quoted("<(1,2),3>")),
    "lsn": Column("pg_lsn", _quoted("16/B374D848", "0/0")),
    "snap": Column("pg_snapshot", _quoted("10:20:10,14")),
    "cls": Column("regclass", _quoted("pg_class")),
    "typ": Column("regtype", _quoted("integer")),
    "xi": Column("xid", _quoted("7")),
    "ci_d": Column("cid", _quoted("7")),
    "td": Column("tid", _quoted("(0,1)")),
    "hs": Column(
        "hstore",
        _quoted("", '"a"=>"1", "b"=>NULL', '"q\\"uo"=>"x\\\\y", "é"=>""', '"NULL"=>"NULL"'),
        f"hstore('k', repeat('h', {_LONG}))",
    ),
    "tree": Column("ltree", _quoted("a.b.c", "")),
    "lq": Column("lquery", _quoted("a.*")),
    "isbn": Column("isbn", _quoted("0-393-04002-X")),
    "ean": Column("ean13", _quoted("978-0-393-04002-9")),
    "mood": Column(f"{SCHEMA}.mood", _quoted("sad", "ok", "it's, fine")),
    "percent": Column(f"{SCHEMA}.percent", ("0", "100")),
    "share": Column(f"{SCHEMA}.share", ("0", "100")),
    "amount": Column(f"{SCHEMA}.amount", ("0", "12.30", "-99999999.99")),
    "label": Column(f"{SCHEMA}.label", _quoted("", "label")),
    "feeling": Column(f"{SCHEMA}.feeling", _quoted("sad", "it's, fine")),
    "moment": Column(f"{SCHEMA}.moment", _quoted(*_MOMENTS)),
    "counts": Column(f"{SCHEMA}.counts", _quoted("{1,NULL}", "{}")),
    "comp": Column(f"{SCHEMA}.pair", _quoted("(1,x)", "(,)", '(1,"a,b")')),
    "couple": Column(f"{SCHEMA}.couple", _quoted("(1,x)")),
}


def _array(values: Sequence[str], type_: str) -> tuple[str, ...]:
    some = [f"ARRAY[{', '.join(values[i : i + 3])}, NULL]::{type_}" for i in range(0, len(values), 3)]
    return (*some, "'{}'", f"ARRAY[NULL]::{type_}")


_LONG_ARRAYS: Final = frozenset(
    [
        "flag",
        "i2",
        "i4",
        "i8",
        "r",
        "d",
        "n72",
        "free",
        "t",
        "v",
        "cit",
        "b",
        "day",
        "ti",
        "ts",
        "tsz",
        "u",
        "jb",
        "mood",
    ]
)


def _as_arrays(columns: dict[str, Column]) -> dict[str, Column]:
    arrays = {}
    for name, column in columns.items():
        type_ = f"{column.type}[]"
        long = f"array_fill(({column.values[0]})::{column.type}, ARRAY[600])" if name in _LONG_ARRAYS else None
        arrays[f"{name}_a"] = Column(type_, _array(column.values, type_), long)
    return arrays


_NESTED: Final = {
    f"{name}_n{'[]' * depth}".replace("[]", "d"): Column(
        f"{SCALARS[name].type}{'[]' * depth}",
        [
            f"'{text}'"
            for text in (
                f"{{{{{a},{b}}},{{{b},NULL}}}}",
                f"[0:1]={{{a},{b}}}",
                f"{{{a},{b}}}",
                f"{{{{{{{a}}}}}}}",
                "{}",
            )
        ],
    )
    for depth in (1, 2)
    for name, a, b in (
        ("i4", "1", "2"),
        ("i8", "1", "2"),
        ("t", "a", '"b c"'),
        ("n72", "1.50", "2"),
        ("d", "0.5", "NaN"),
        ("flag", "t", "f"),
        ("day", "2024-02-29", "infinity"),
        ("ts", '"2024-02-29 01:02:03"', "infinity"),
        ("u", "6ecd8c99-4036-403d-bf84-cf8400f67836", "6ecd8c99-4036-403d-bf84-cf8400f67837"),
        ("jb", "1", '"{}"'),
        ("mood", "sad", "ok"),
        ("b", r'"\\\\x00"', r'"\\\\x01"'),
    )
}
"""Arrays with other dimensions and bounds than declared."""
ARRAYS: Final = {**_as_arrays(SCALARS), **_NESTED}


class Table(NamedTuple):
    """One table: `create` defines it; columns: beside `id` and `code`."""

    name: str
    create: Sequence[str]
    columns: dict[str, Column]
    required: bool
    changes: bool
    """Whether the server takes updates and deletes."""


def _table(name: str, columns: dict[str, Column], identity: str, *, required: bool = False) -> Table:
    null = " NOT NULL" if required else ""
    body = ", ".join(f'"{column}" {one.type}{null}' for column, one in columns.items())
    keys = {
        "DEFAULT": "id integer PRIMARY KEY, code text",
        "FULL": "id integer PRIMARY KEY, code text",
        "NOTHING": "id integer PRIMARY KEY, code text",
        "INDEX": "id integer NOT NULL, code text NOT NULL UNIQUE",
    }[identity]
    full = f'{SCHEMA}."{name}"'
    using = f"USING INDEX {name}_code_key" if identity == "INDEX" else identity
    toasted = [f'ALTER TABLE {full} ALTER COLUMN "{c}" SET STORAGE EXTERNAL' for c, one in columns.items() if one.toast]
    return Table(
        name,
        (f"CREATE TABLE {full} ({keys}, {body})", f"ALTER TABLE {full} REPLICA IDENTITY {using}", *toasted),
        columns,
        required,
        identity != "NOTHING",
    )


class Generated(NamedTuple):
    """tables: SQL that creates them; rows: what is there before the connectors start; changes: what is done afterwards,
    each group when both connectors have read the one before; names: of the tables that can be read in chunks.
    """

    tables: Sequence[str]
    rows: Sequence[str]
    changes: Sequence[Sequence[str]]
    names: Sequence[str]


LAST: Final = "zz_last"
"""The table with a row before the changes, and one after each group."""
_ROWS: Final = 7
_UPDATES: Final = 6


class _Writer:
    """Writes the SQL of one table's changes."""

    def __init__(self, table: Table, choice: random.Random) -> None:
        self._table = table
        self._choice = choice
        self._name = f'{SCHEMA}."{table.name}"'
        self._pools = {name: list(column.values) for name, column in table.columns.items()}
        for pool in self._pools.values():
            choice.shuffle(pool)
        self._ids: list[int] = []

    def _value(self, name: str, number: int) -> str:
        toast = self._table.columns[name].toast
        if toast is not None and number % 3 == 1:
            return toast
        if not self._table.required and self._choice.random() < 0.05:
            return "NULL"
        return self._pools[name][number % len(self._pools[name])]

    def inserts(self, first: int) -> list[str]:
        """Each has other values of the pools, as long as there are some."""
        statements = []
        for number in range(_ROWS):
            key = first + number
            values = ", ".join(self._value(name, number + len(self._ids)) for name in self._table.columns)
            statements.append(f"INSERT INTO {self._name} VALUES ({key}, 'c{key}', {values})")
        self._ids += range(first, first + _ROWS)
        return statements

    def changes(self, first: int) -> list[str]:
        """Inserts, updates of some columns or of one that is not large, a change of the key, deletes."""
        statements = self.inserts(first)
        if not self._table.changes:
            return statements
        names, choice = list(self._table.columns), self._choice
        small = [name for name in names if not self._table.columns[name].toast]
        for number, key in enumerate(choice.sample(self._ids, _UPDATES)):
            changed = choice.sample(names, 4) if number % 2 else small[:1]
            assignments = ", ".join(f'"{name}" = {self._value(name, choice.randrange(100))}' for name in changed)
            statements.append(f"UPDATE {self._name} SET {assignments} WHERE id = {key}")
        moved, *gone = choice.sample(self._ids, 3)
        statements.append(f"UPDATE {self._name} SET id = -id, code = '-' || code WHERE id = {moved}")
        statements += [f"DELETE FROM {self._name} WHERE id = {key}" for key in gone]
        return statements


_MOVING: Final = f"{SCHEMA}.moving"
_COMPUTED: Final = f"{SCHEMA}.computed"
_STRUCTURES: Final = f"""
CREATE TABLE {_MOVING} (
  id integer PRIMARY KEY, code text NOT NULL UNIQUE, a integer, b text NOT NULL DEFAULT 'b', c text
);
CREATE TABLE {_COMPUTED} (
  id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a integer, twice integer GENERATED ALWAYS AS (a * 2) STORED,
  always integer GENERATED ALWAYS AS IDENTITY, big bigserial
);
CREATE TABLE {SCHEMA}.keyless (a integer, b text);
ALTER TABLE {SCHEMA}.keyless REPLICA IDENTITY FULL;
CREATE TABLE {SCHEMA}.parted (id integer, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE {SCHEMA}.parted_n PARTITION OF {SCHEMA}.parted FOR VALUES IN ('n');
CREATE TABLE {SCHEMA}.parted_s PARTITION OF {SCHEMA}.parted FOR VALUES IN ('s');
CREATE TABLE {SCHEMA}.base (id integer PRIMARY KEY, v text);
CREATE TABLE {SCHEMA}.derived (more integer, PRIMARY KEY (id)) INHERITS ({SCHEMA}.base);
CREATE TABLE {SCHEMA}.{LAST} (id integer PRIMARY KEY);
"""
_STRUCTURE_ROWS: Final = (
    f"INSERT INTO {_MOVING} VALUES (1, 'c1', 1, 'x', 'y'), (2, 'c2', 2, 'x', NULL)",
    f"INSERT INTO {_COMPUTED} (a) VALUES (1), (NULL)",
    f"INSERT INTO {SCHEMA}.keyless VALUES (1, 'a'), (1, 'a'), (NULL, NULL)",
    f"INSERT INTO {SCHEMA}.parted VALUES (1, 'n', 'x'), (2, 's', 'y')",
    f"INSERT INTO {SCHEMA}.base VALUES (1, 'x')",
    f"INSERT INTO {SCHEMA}.derived VALUES (2, 'y', 3)",
    f"INSERT INTO {SCHEMA}.{LAST} VALUES (0)",
)
_STRUCTURE_CHANGES: Final = (
    f"INSERT INTO {_COMPUTED} (a) VALUES (4), (NULL)",
    f"UPDATE {_COMPUTED} SET a = 5 WHERE a = 4",
    f"DELETE FROM {_COMPUTED} WHERE a = 5",
    f"INSERT INTO {SCHEMA}.keyless VALUES (2, 'b')",
    f"UPDATE {SCHEMA}.keyless SET b = 'c' WHERE a = 1",
    f"DELETE FROM {SCHEMA}.keyless WHERE a IS NULL",
    f"INSERT INTO {SCHEMA}.parted VALUES (3, 'n', 'z')",
    f"UPDATE {SCHEMA}.parted SET region = 's' WHERE id = 3",
    f"UPDATE {SCHEMA}.base SET v = 'z'",
    f"DELETE FROM {SCHEMA}.base WHERE id = 2",
    f"TRUNCATE {SCHEMA}.keyless, {SCHEMA}.base",
)
_DDL: Final = (
    (
        f"ALTER TABLE {_MOVING} ADD COLUMN d integer NOT NULL DEFAULT 9",
        f"ALTER TABLE {_MOVING} ALTER COLUMN d TYPE bigint",
        f"ALTER TABLE {_MOVING} ALTER COLUMN d DROP NOT NULL",
    ),
    (
        f"ALTER TABLE {_MOVING} REPLICA IDENTITY FULL",
        f"ALTER TABLE {_MOVING} REPLICA IDENTITY USING INDEX moving_code_key",
        f"ALTER TABLE {_MOVING} REPLICA IDENTITY DEFAULT",
    ),
    (f"ALTER TABLE {_MOVING} RENAME COLUMN a TO aa", f"ALTER TABLE {_MOVING} ALTER COLUMN c TYPE varchar(50)"),
    (f"ALTER TABLE {_MOVING} ADD COLUMN e numeric(5, 2) DEFAULT 1.5", f"ALTER TABLE {_MOVING} DROP COLUMN b"),
)
"""Each chain in its order; the chains are mixed."""


def _ddl_groups(choice: random.Random) -> list[list[str]]:
    """Return one group for each change of the table's definition, with changes of rows around it."""
    chains = [list(chain) for chain in _DDL]
    groups: list[list[str]] = []
    while any(chains):
        statement = choice.choice([chain for chain in chains if chain]).pop(0)
        number = len(groups) + 1
        key = number * 10
        groups.append(
            [
                statement,
                f"INSERT INTO {_MOVING} (id, code, c) VALUES ({key}, 'c{key}', 'one'), ({key + 1}, 'c{key + 1}', NULL)",
                f"UPDATE {_MOVING} SET c = c || 'x' WHERE id IN (1, {key})",
                f"UPDATE {_MOVING} SET code = code || 'x' WHERE id = {key}",
                f"DELETE FROM {_MOVING} WHERE id = {key + 1}",
            ]
        )
    return groups


def generate(seed: int) -> Generated:
    """Return the script of a seed."""
    choice = random.Random(seed)
    tables = []
    for identity in ("DEFAULT", "FULL", "NOTHING", "INDEX"):
        name = identity.lower()
        tables.append(_table(f"opt_{name}", SCALARS, identity))
        tables.append(_table(f"req_{name}", SCALARS, identity, required=True))
        tables.append(_table(f"arr_{name}", ARRAYS, identity))
    writers = [_Writer(table, choice) for table in tables]
    rows = [statement for writer in writers for statement in writer.inserts(1)]
    changes = [*(writer.changes(1001) for writer in writers), list(_STRUCTURE_CHANGES)]
    mixed = []
    while any(changes):
        mixed.append(choice.choice([each for each in changes if each]).pop(0))
    creates = [TYPES_SQL, *(statement for table in tables for statement in table.create), _STRUCTURES]
    names = [table.name for table in tables if table.changes]
    return Generated(
        creates,
        [*rows, *_STRUCTURE_ROWS],
        [mixed, *_ddl_groups(choice)],
        [*names, LAST],
    )
