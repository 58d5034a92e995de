"""Tables of every kind, and what is done to them: the script that PostgresSource and Debezium both read."""

from typing import Final

TABLES: Final = """
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('sad', 'ok', 'it''s fine');
CREATE DOMAIN shop.percent AS integer CHECK (value BETWEEN 0 AND 100);
CREATE DOMAIN shop.money_amount AS numeric(10, 2);
CREATE DOMAIN shop.short_text AS varchar(10);
CREATE TYPE shop.pair AS (a integer, b text);
CREATE TABLE shop.numbers (
  id bigserial PRIMARY KEY, i2 smallint, i4 integer NOT NULL DEFAULT 7, i8 bigint, r real, d double precision,
  n numeric(10, 3), wide numeric(30, 0), free numeric, flag boolean NOT NULL DEFAULT true, m money, o oid
);
CREATE TABLE shop.texts (
  id integer PRIMARY KEY, t text NOT NULL DEFAULT 'none', v varchar(20) DEFAULT 'v', c char(5), b bytea,
  u uuid, j json, jb jsonb, x xml, cit text, bits bit(12), bit1 bit(1), vbits varbit(20), ip inet, net cidr,
  mac macaddr, mac8 macaddr8, ch "char"
);
CREATE TABLE shop.times (
  id integer PRIMARY KEY, d date, t time, t3 time(3), tz timetz, ts timestamp, ts3 timestamp(3), tsz timestamptz,
  i interval, created timestamptz NOT NULL DEFAULT '2020-01-01 00:00:00+00', dd date NOT NULL DEFAULT '2020-02-03'
);
CREATE TABLE shop.odd (
  id integer PRIMARY KEY, feeling shop.mood, share shop.percent, price shop.money_amount, label shop.short_text,
  ints integer[], texts text[], nums numeric(8, 2)[], moods shop.mood[], days date[], stamps timestamptz[],
  uuids uuid[], flags boolean[], r int4range, tr tstzrange,
  p point, vec tsvector, bys bytea[], js jsonb[]
);
CREATE TABLE shop.big (id integer PRIMARY KEY, v integer, body text, tail text);
ALTER TABLE shop.big ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE shop.whole (id integer PRIMARY KEY, v integer, body text);
ALTER TABLE shop.whole ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE shop.whole REPLICA IDENTITY FULL;
CREATE TABLE shop.keyless (a integer, b text);
ALTER TABLE shop.keyless REPLICA IDENTITY FULL;
CREATE TABLE shop.by_index (a integer NOT NULL, b text NOT NULL, c text);
CREATE UNIQUE INDEX by_index_key ON shop.by_index (b);
ALTER TABLE shop.by_index REPLICA IDENTITY USING INDEX by_index_key;
CREATE TABLE shop.two_keys (a text, b integer, c text, PRIMARY KEY (b, a));
CREATE TABLE shop.parted (id integer, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE shop.parted_north PARTITION OF shop.parted FOR VALUES IN ('n');
CREATE TABLE shop.parted_south PARTITION OF shop.parted FOR VALUES IN ('s');
CREATE TABLE shop."Strange Name" (id integer PRIMARY KEY, "a column" text, "UPPER" text);
CREATE TABLE shop.more_numbers (
  id serial PRIMARY KEY, n numeric(10, 3), f numeric, nn numeric NOT NULL DEFAULT 1.50, m money NOT NULL DEFAULT 3.5,
  r real NOT NULL DEFAULT 1.25, d double precision NOT NULL DEFAULT -2.5, i smallint NOT NULL DEFAULT -3,
  nd numeric(6, 2) NOT NULL DEFAULT 9.5, fa float8[], o oid NOT NULL DEFAULT 5
);
CREATE TABLE shop.more_texts (
  id integer PRIMARY KEY, bits bit(12), vb bit varying, b1 bit(1) NOT NULL DEFAULT B'1',
  u uuid NOT NULL DEFAULT gen_random_uuid(), j jsonb NOT NULL DEFAULT '{}', c char(3) NOT NULL DEFAULT 'a',
  bl bytea NOT NULL DEFAULT '\\x01', up text NOT NULL DEFAULT upper('x'), f shop.mood NOT NULL DEFAULT 'ok',
  comp shop.pair, arr text[] NOT NULL DEFAULT '{a,b}', ia integer[] DEFAULT ARRAY[1, 2], ts tsquery, lsn pg_lsn,
  mr int4multirange, dflt text DEFAULT null, ex text DEFAULT 'it''s'
);
CREATE TABLE shop.more_times (
  id integer PRIMARY KEY, ts timestamp, tsz timestamptz, d date, tsz3 timestamptz(3), tsz0 timestamptz(0),
  ts0 timestamp(0), t0 time(0), tz3 timetz(3), n timestamptz NOT NULL DEFAULT now(),
  nd date NOT NULL DEFAULT CURRENT_DATE, nt timestamp NOT NULL DEFAULT '2020-01-01 01:02:03',
  t time NOT NULL DEFAULT '01:02:03', i interval NOT NULL DEFAULT '1 day',
  i2 interval NOT NULL DEFAULT make_interval(days => 2), tz timetz NOT NULL DEFAULT '01:02:03+02', ta timestamp[],
  tta time[]
);
CREATE TABLE shop.generated (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a integer NOT NULL,
  twice integer GENERATED ALWAYS AS (a * 2) STORED
);
CREATE TABLE shop.uniq (a integer UNIQUE NOT NULL, b text);
CREATE TABLE shop.uniq_full (a integer UNIQUE, b text);
ALTER TABLE shop.uniq_full REPLICA IDENTITY FULL;
CREATE TABLE public.outside (id integer PRIMARY KEY);
"""

CHANGES: Final = (
    "INSERT INTO shop.numbers (i2, i4, i8, r, d, n, wide, free, flag, m, o) VALUES "
    "(-32768, 2147483647, 9007199254740993, 1.5, 0.1, 12345.678, 123456789012345678901234567890, 1.2300, false, "
    "12.34, 7)",
    "INSERT INTO shop.numbers (r, d, n, wide, free, m) VALUES "
    "(3.4028235e38, 1e308, -0.001, -1, -123.4500, -1234567.89)",
    "INSERT INTO shop.numbers (r, d) VALUES ('NaN', 'Infinity')",
    "INSERT INTO shop.numbers (i2) VALUES (null)",
    "INSERT INTO shop.texts VALUES (1, 'Grüße 🎉', 'v', 'ab', '\\x00ff10', '6ecd8c99-4036-403d-bf84-cf8400f67836', "
    "'{\"a\": [1, 2]}', '{\"b\":  null}', '<a>b</a>', 'x', B'101010101111', B'1', B'10101', '10.1.2.3/24', "
    "'10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', 'c')",
    "INSERT INTO shop.texts (id) VALUES (2)",
    "INSERT INTO shop.times VALUES (1, '2024-02-29', '12:34:56.123456', '12:34:56.789', '12:34:56.123456+02', "
    "'2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.123456+02', "
    "'1 year 2 mons 3 days 04:05:06.789', '2024-01-01 00:00:00+00', '1969-12-31')",
    "INSERT INTO shop.times VALUES (2, '0001-01-01', '00:00:00', '00:00:00', '00:00:00+00', '1900-01-01 00:00:00', "
    "'1900-01-01 00:00:00.001', '1900-01-01 00:00:00+00', '-1 mon 2 days -00:00:01', '2024-06-01 12:00:00.5+05:30')",
    "INSERT INTO shop.times (id, t, ts, tsz, i) VALUES (3, '23:59:59.999999', '9999-12-31 23:59:59', "
    "'9999-12-31 23:59:59+00', '00:00:00')",
    "INSERT INTO shop.odd VALUES (1, 'it''s fine', 42, 12.3, 'label', '{1,NULL,3}', "
    '\'{a,"b \\"c\\\\ ,",NULL,"NULL",""}\', '
    "'{1.50,2.25}', '{sad,ok}', '{2024-02-29}', '{2024-02-29 12:34:56+00}', "
    "'{6ecd8c99-4036-403d-bf84-cf8400f67836}', '{t,f}', '[1,5)', '[2024-01-01,2024-02-01)', '(1.5,-2)', 'a fat cat', "
    '\'{"\\\\x00ff"}\', \'{"{\\"a\\": 1}"}\')',
    "INSERT INTO shop.odd (id, ints, texts) VALUES (2, '{}', '{}')",
    "INSERT INTO shop.big VALUES (1, 1, repeat('x', 9000), 'end')",
    "UPDATE shop.big SET v = 2 WHERE id = 1",
    "UPDATE shop.big SET tail = null, body = 'short' WHERE id = 1",
    "UPDATE shop.big SET id = 10 WHERE id = 1",
    "DELETE FROM shop.big WHERE id = 10",
    "INSERT INTO shop.whole VALUES (1, 1, repeat('y', 9000))",
    "UPDATE shop.whole SET v = 2",
    "UPDATE shop.whole SET id = 3",
    "DELETE FROM shop.whole",
    "INSERT INTO shop.keyless VALUES (1, 'a'), (1, 'a')",
    "UPDATE shop.keyless SET b = 'b'",
    "DELETE FROM shop.keyless",
    "INSERT INTO shop.by_index VALUES (1, 'one', 'x')",
    "UPDATE shop.by_index SET c = 'y'",
    "UPDATE shop.by_index SET b = 'two'",
    "DELETE FROM shop.by_index",
    "INSERT INTO shop.two_keys VALUES ('a', 1, 'x')",
    "UPDATE shop.two_keys SET c = 'y'",
    "UPDATE shop.two_keys SET a = 'b'",
    "DELETE FROM shop.two_keys",
    "INSERT INTO shop.parted VALUES (1, 'n'), (2, 's')",
    "UPDATE shop.parted SET region = 's' WHERE id = 1",
    "INSERT INTO shop.\"Strange Name\" VALUES (1, 'x', 'Y')",
    "INSERT INTO shop.more_numbers (n, f, fa) VALUES ('NaN', 'NaN', '{NaN,1.5,-Infinity}')",
    "INSERT INTO shop.more_numbers (f) VALUES "
    "('Infinity'), ('100'), ('0'), ('0.00'), ('1e20'), ('-0.000001'), (123456789.123456789)",
    "INSERT INTO shop.more_texts (id, bits, vb, u, comp, ts, lsn, mr) VALUES (1, B'000000000000', B'', "
    "'6ecd8c99-4036-403d-bf84-cf8400f67836', '(1,x)', 'a & b', '16/B374D848', '{[1,3),[5,7)}')",
    f"INSERT INTO shop.more_texts (id, bits, vb, u) VALUES (2, B'000000000001', B'1{'0' * 70}1', "
    "'6ecd8c99-4036-403d-bf84-cf8400f67836')",
    "INSERT INTO shop.more_times (id, ts, tsz, d, n, nd) VALUES (1, 'infinity', 'infinity', 'infinity', "
    "'2020-01-01', '2020-01-01'), (2, '-infinity', '-infinity', '-infinity', '2020-01-01', '2020-01-01')",
    "INSERT INTO shop.more_times (id, ts, tsz, d, n, nd) VALUES (3, '0044-03-15 BC', '0044-03-15 00:00:00+00 BC', "
    "'0044-03-15 BC', '2020-01-01', '2020-01-01')",
    "INSERT INTO shop.more_times (id, ts, tsz, d, tsz3, tsz0, ts0, t0, tz3, n, nd, ta, tta) VALUES "
    "(4, '12345-01-02 03:04:05', '12345-01-02 03:04:05+00', '12345-01-02', '2024-01-02 03:04:05.678+00', "
    "'2024-01-02 03:04:05+00', '2024-01-02 03:04:05', '24:00:00', '01:02:03.5-03:30', '2020-01-01', '2020-01-01', "
    "'{2024-01-02 03:04:05.6}', '{01:02:03}')",
    "INSERT INTO shop.generated (a) VALUES (4)",
    "UPDATE shop.generated SET a = 5",
    "INSERT INTO shop.uniq VALUES (1, 'x')",
    "INSERT INTO shop.uniq_full VALUES (1, 'x')",
    "UPDATE shop.uniq_full SET a = 2",
    "DELETE FROM shop.more_numbers WHERE id = 1",
    "SELECT pg_logical_emit_message(true, 'outbox', 'hello')",
    "SELECT pg_logical_emit_message(false, 'loose', 'hi')",
    "BEGIN; INSERT INTO shop.generated (a) VALUES (1); SELECT pg_logical_emit_message(true, 'outbox', 'within'); "
    "INSERT INTO shop.uniq VALUES (2, 'y'); INSERT INTO shop.generated (a) VALUES (2); COMMIT",
    "TRUNCATE shop.two_keys, shop.by_index",
    "INSERT INTO public.outside VALUES (1)",
    "INSERT INTO shop.two_keys VALUES ('end', 1, 'end')",
)
"""Each is a transaction. The last one is the end marker."""
