"""What both servers are asked, and where they are known to answer differently. See test_like_postgres.py."""

from __future__ import annotations

BOOLEANS = """
true; false; 't'::boolean; 'off'::boolean; NULL::boolean; 1 = 1; 1 <> 1; 'yes'::boolean AND NOT false; NULL AND true
1 IS NULL; 1 IN (1, 2); 'abc' LIKE 'a%'; 'abc' ~ 'B'; 'abc' ~* 'B'; 1 BETWEEN 0 AND 2; 1 IS DISTINCT FROM NULL
true::text; false::text; true::int; 0::boolean
"""

INTEGERS = """
0; 1; -1; 2147483647; 2147483648; 9223372036854775807; 1::smallint; (-32768)::smallint; 1::bigint; '42'::int
'-7'::bigint; 7 / 2; -7 / 2; 7 % 3; -7 % 3; 2 + 3; 2 - 3; 2 * 3; 1::smallint + 1::smallint; 1 + 1::bigint; 5 & 3
5 | 3; 5 # 3; ~5; 1 << 4; abs(-5); sign(-5); mod(7, 3); 2.5::int; 3.5::int; -2.5::int; 2.5::float8::int
3.5::float8::int; 10::text; 1.7::bigint; length('abc'); ascii('a'); strpos('abc', 'c'); octet_length('ü')
char_length('ü'); greatest(1, 2); least(1, 2::bigint); coalesce(NULL, 1); nullif(1, 1)
CASE WHEN true THEN 1 ELSE 2::bigint END; date '2024-03-01' - date '2024-02-01'
"""

NUMERICS = """
1.50; 1.0; 0.00; -0.50; 1.50::numeric; '1.50'::numeric; '0.000'::numeric; 1::numeric; 1.5::numeric(10,2)
1.005::numeric(10,2); '1e3'::numeric; '1.5e-3'::numeric; 1e3; 1.5e-3; 12345678901234567890
123456789012345678901234567890.12345678; .5; 5.; 007.10; 1.10 + 2; 1.10 + 2.205; 2 - 1.10; 1.10 * 2; 1.10 * 2.205
1.5 * 1.50 * 1.500; 7.5 % 2; 7.50 % 2; -1.50; +1.50; - (1.50); abs(-1.50); round(1.005, 2); round(2.5); round(-2.5)
round(1.5, 3); round(1, 2); round(123.456, -1); round(1234.5678, 2); trunc(1.999, 2); trunc(1.9); trunc(-1.9)
trunc(1.5, 3); ceil(1.2); floor(1.2); ceil(-1.20); ceiling(2.0); sign(-1.50); greatest(1.50, 2); least(1.5, 1.50)
coalesce(NULL, 1.50); coalesce(1.50, 2); CASE WHEN true THEN 1.5 ELSE 2 END; nullif(1.50, 2); 1.50::text
(1.10 * 2.20)::text; '1.50'::text::numeric(5,3); 1::numeric(5,2); 1.50::numeric(4,1); 99999.995::numeric(8,2)
(1.5::numeric(10,2)) * 2; (1.5::numeric(10,2) + 1)::numeric(12,3); 2::numeric(38,2); 1.5::numeric(38,10)
1.50::int::numeric; true::int::numeric; sum(x) FROM (VALUES (1.10), (2.205)) v(x); sum(x) FROM (VALUES (1), (2)) v(x)
sum(x) FROM (VALUES (1::bigint)) v(x); max(x) FROM (VALUES (1.10), (2.205)) v(x)
min(x) FROM (VALUES (1.10::numeric(10,2))) v(x); sum(x::numeric(10,2)) FROM (VALUES (1.1)) v(x)
sum(x::numeric(35,4)) FROM (VALUES (1.1)) v(x); sum(x * 2) FROM (VALUES (1.10)) v(x)
round(avg(x), 2) FROM (VALUES (1), (2)) v(x); round(10.0 / 4, 3); round(10 / 3.0, 4); (10 / 4.0)::numeric(10,2)
extract(year FROM date '2024-02-29'); extract(second FROM timestamp '2024-01-01 00:00:01.5')
extract(epoch FROM timestamp '2024-01-01 00:00:01.5'); extract(epoch FROM date '2024-01-01')
extract(milliseconds FROM timestamp '2024-01-01 00:00:01.5'); extract(hour FROM timestamp '2024-01-01 07:00:00')
extract(microseconds FROM timestamp '2024-01-01 00:00:01.5'); extract(epoch FROM interval '1 day 1.5 seconds')
x::numeric(10,2) FROM (VALUES (1), (NULL)) v(x); trim_scale(1.500); scale(1.500); min_scale(1.500); power(2, 3)
to_number('12.30', '99.99'); ARRAY[1.50, 2]; ARRAY[1.5::numeric(10,2)]; ROW(1.50, 2); div(7.5, 2); mod(7.5, 2)
gcd(12, 8); lcm(4, 6); width_bucket(5.35, 0.024, 10.06, 5)
"""

QUOTIENTS = """
10.0 / 4; 1.0 / 3; 1 / 3.0; -1 / 3.0; 2 / 3.0; 10 / 3.0; 0 / 3.0; 0.0 / 7; 1.5 / 1.5; 1.5 / 1; 1.50 / 1.0; 3 / 2.0
3.0 / 2; 1.9 / 1.1; 100 / 100.0; 10000 / 1.0; 20000 / 10000.0; 15000 / 10000.0; 15000.0 / 1; 12345.678 / 1
100000000.0 / 1; 123456789.0 / 1; 123456789.0 / 10000; 999999999999.0 / 7; 1234567890123.45 / 3; 12345678901234567.0 / 2
0.001 / 3; 0.0002 / 1; 0.5 / 0.0001; 0.00012 / 0.00005; 1 / 9999.0; 1.0000000000001 / 3; 1.00000000000000000001 / 3
5.000000000000000000 / 3; 1::numeric / 3; 7::bigint::numeric / 9::bigint; 1::smallint / 7.0; 2::numeric(10,2) / 3
2::numeric(10,2) / 3::numeric(12,4); 1e10 / 3; 1e16 / 3; 1e17 / 7.0; 22 / 7.0 / 3; 1.0 / 3 / 7; 7.0 / (1.0 / 3)
10.0 / 4 + 1; 1 / 3.0 + 1; 1 - 1 / 3.0; 1 / 3.0 + 0.001; 10 / 4.0 - 2.5; 1 / 3.0 * 100; 100 * (1 / 3.0); 10.0 / 4 * 1.50
100.0 * 1 / 3; 2 * (10 / 4.0); (10 / 4.0) * (10 / 4.0); (1000 / 3.0) * (5 / 2.0); - (10 / 4.0); + (10 / 4.0)
abs(-10 / 4.0); abs(-1 / 3.0); round(10 / 4.0, 2); round(1 / 3.0, 20); round(2 / 3.0); trunc(2 / 3.0, 3); ceil(2 / 3.0)
floor(-2 / 3.0); sign(-2 / 3.0); coalesce(NULL, 10 / 4.0); coalesce(10 / 4.0, 0); coalesce(NULL::numeric / 3.0, 0)
CASE WHEN true THEN 10 / 4.0 END; CASE WHEN false THEN 10 / 4.0 ELSE 0 END; nullif(10 / 4.0, 1); NULL::numeric / 3
(10 / 4.0)::text; (1 / 3.0)::text; (-2 / 3.0)::text; (12345678 / 7.0)::text; 'x' || (10 / 4.0); concat(1 / 3.0, 'x')
(10 / 4.0)::numeric; (10 / 4.0)::numeric(10,2); (10 / 4.0)::numeric(38,20); (2 / 3.0)::int; (10 / 4.0)::float8
(1 / 3.0)::numeric; scale(10 / 4.0); scale(1 / 3.0); ARRAY[10 / 4.0, 1 / 3.0]; ARRAY[1 / 3.0, NULL]::text
(10 / 4.0) % 2; ROW(10 / 4.0, 1 / 3.0)
greatest(10 / 4.0, 7 / 2.0); to_char(10 / 4.0, '99.99'); mod(10 / 4.0, 2); div(10, 4.0); 10 / 3.0 * 100
avg(x) FROM (VALUES (1), (2)) v(x); avg(x) FROM (VALUES (1), (1)) v(x); avg(x) FROM (VALUES (0)) v(x)
avg(x) FROM (VALUES (-1), (-2)) v(x); avg(x) FROM (VALUES (1), (2), (2)) v(x); avg(x) FROM (VALUES (NULL::int)) v(x)
avg(x) FROM (VALUES (1.50)) v(x); avg(x) FROM (VALUES (1.10), (2.205)) v(x); avg(x) FROM (VALUES (10001), (10002)) v(x)
avg(x) FROM (VALUES (12345)) v(x); avg(x) FROM (VALUES (15000), (15001)) v(x); avg(x) FROM (VALUES (0.3), (0.5)) v(x)
avg(x) FROM (VALUES (123456789012::bigint), (5)) v(x); avg(x) FROM (VALUES (1::smallint), (4)) v(x)
avg(DISTINCT x) FROM (VALUES (1), (1), (4)) v(x); avg(x) FILTER (WHERE x > 1) FROM (VALUES (1), (2), (5)) v(x)
avg(x::numeric(10,2)) FROM (VALUES (1), (2)) v(x); avg(x) OVER () FROM (VALUES (7)) v(x)
avg(x) + 1 FROM (VALUES (1), (2)) v(x); avg(x) * 1.5 FROM (VALUES (1), (2)) v(x); round(avg(x)) FROM (VALUES (1)) v(x)
coalesce(avg(x), 0) FROM (VALUES (NULL::int)) v(x); coalesce(avg(x), 0) FROM (VALUES (3), (4)) v(x)
avg(x)::text FROM (VALUES (1), (2)) v(x); sum(x) / count(*) FROM (VALUES (1.0), (2)) v(x)
sum(x / 3.0) FROM (VALUES (1), (2)) v(x); max(x / 3.0) FROM (VALUES (1), (2)) v(x); sum(x / 4.0) FROM (VALUES (10)) v(x)
avg(x / 3.0) FROM (VALUES (1), (2)) v(x); array_agg(x / 3.0) FROM (VALUES (1), (20)) v(x)
x / 3.0 FROM (VALUES (1)) v(x) GROUP BY x; x / 3.0 FROM (VALUES (10)) v(x) GROUP BY x / 3.0
q FROM (SELECT 10 / 4.0 AS q) v; q + 1 FROM (SELECT 10 / 4.0 AS q) v; q::text FROM (SELECT 1 / 3.0 AS q) v
1 / 30000.0; 1 / 20000.0; 0 / 10000.0; 0.0000 / 12345678; (1 / 30000.0)::text; (1.5 / 1)::text; (SELECT 0.5 / 2)
q FROM (SELECT 1.5 / 1 AS q) v; DISTINCT x / 3.0 FROM (VALUES (20)) v(x)
x / 3.0 AS a FROM (VALUES (1), (2)) v(x) ORDER BY a DESC
x / 3.0 AS a FROM (VALUES (1), (2)) v(x) ORDER BY 1 DESC LIMIT 1; (SELECT 10 / 4.0); (SELECT 1 / 3.0) * 2
"""

FACTORS = (
    "0", "1", "-1", "2", "3", "7", "10", "99", "100", "9999", "10000", "10001", "19999", "20000", "123456789",
    "0.01", "0.5", "1.5", "1.99", "-2.25", "33.33", "12345.67", "9999.99", "0.0001", "-0.0003", "1000000.5",
)  # fmt: skip
"""Of two columns: pairs of them are divided, and averaged."""

OF_FACTORS = """
SELECT id, a / b, a / b + 1, a / 4 * 2, a / 3, 100.0 * a / b, i / b, a / i, abs(a / b), - (a / b), round(a / b, 3),
    coalesce(a / c, 0), a / 8 * 1.25, CASE WHEN a > b THEN a / b ELSE b / 7 END, i::numeric / 7 FROM {t}
    WHERE (a = 0 OR abs(a) >= 0.0002 * abs(b)) AND abs(b) BETWEEN 0.01 AND 50000 ORDER BY id;
SELECT id, a / b, a / b - 1, a / 8 * 100, a / b::numeric(20,10), b * a / b FROM {t}
    WHERE a = 0 OR abs(a) >= 0.0002 * abs(b) ORDER BY id;
SELECT id, avg(a) OVER (ORDER BY id ROWS 2 PRECEDING), avg(i) OVER (PARTITION BY i) FROM {t} ORDER BY id;
SELECT i, avg(a), avg(b), avg(i), avg(a * b), avg(a) + 1, sum(a) / count(*), coalesce(avg(c), 0),
    avg(a) FILTER (WHERE a > 0), avg(DISTINCT a), max(a / 3), round(avg(a), 2), sum(a / 4) FROM {t}
    GROUP BY i ORDER BY i;
SELECT avg(a), avg(b), avg(i), avg(a / 4), avg(c) FROM {t};
SELECT a % 3, avg(b) FROM {t} GROUP BY a % 3 ORDER BY 1;
SELECT i, avg(a) AS m FROM {t} GROUP BY ROLLUP (i) HAVING avg(a) <> 1 ORDER BY avg(a) DESC, i;
SELECT DISTINCT ON (i) i, a / 7 AS q FROM {t} ORDER BY i, q DESC, id;
SELECT a / b AS q, id FROM {t} WHERE abs(a) >= 0.01 * abs(b) AND abs(b) BETWEEN 0.01 AND 50000 ORDER BY q, id;
SELECT c / 7 AS q FROM {t} WHERE c IS NULL OR abs(c) > 0.01 ORDER BY q;
SELECT c / 7 FROM {t} WHERE c IS NULL OR abs(c) > 0.01 ORDER BY 1 DESC;
SELECT a / 3, b / 7 FROM {t} WHERE abs(b) > 0.01 ORDER BY id;
SELECT c / 7 AS q FROM {t} ORDER BY 1 NULLS FIRST LIMIT 5;
"""
"""Queries on a table of all pairs of them."""

OF_AVERAGES = """
SELECT i, m, n, q, r FROM {t} ORDER BY i;
SELECT i, m::text, n || '', concat(q), ARRAY[m, n], ARRAY[m]::text, - m, abs(q), m::numeric FROM {t} ORDER BY i;
SELECT max(m), min(n), array_agg(q ORDER BY i) FROM {t};
SELECT m FROM {t} UNION ALL SELECT n FROM {t} ORDER BY 1;
"""
"""Queries on a view that has stored quotients and averages. None of them begins with the digit 1, in base 10,000."""

FLOATS = """
1::float8; 0.1::float8; 1.5::real; 'NaN'::float8; 'Infinity'::float8; '-Infinity'::real; 1e15::float8; 1e14::float8
123456789012345680::float8; 1e-4::float8; 1e-5::float8; 0.1::real; 1e6::real; 123456.7::real; 1234567::real
1.1::real::float8; 1e100::float8; -0.0::float8; '-0'::float8; 1::float8 / 3; 2::real / 3; sqrt(2::float8); pi()
exp(1::float8); ln(2::float8); 0.1::float8 + 0.2::float8; 100::float8; 1e22::float8; 3.4e38::real; 1e-45::real
round(2.5::float8); round(3.5::float8); ceil(1.2::float8); 1.5::float8::text; 1e20::float8::text; 0.1::real::text
sin(1::float8); 2::float8 ^ 10; 0.1::float8::numeric; 123.456::real::numeric; 1.5::float8::numeric(10,2)
avg(x) FROM (VALUES (1.5::float8), (2)) v(x); sum(x) FROM (VALUES (1.5::real)) v(x); ARRAY[1.5::float8, 'NaN']
stddev(x::float8) FROM (VALUES (1), (2)) v(x); corr(x, x) FROM (VALUES (1::float8), (2)) v(x); power(2::float8, 0.5)
"""

TEXTS = r"""
'abc'; 'it''s'; E'a\tb'; ''; 'ü€😀'; 'abc'::text; 'abc'::varchar; 'abc'::varchar(2); 'abc'::varchar(10)
'abc'::character varying(10)::text; NULL; NULL::text; NULL::varchar(5); 'a' || 'b'; 'a' || 1; 'a'::varchar || 'b'
upper('abc'); lower('ABC'::varchar); initcap('hello world'); substring('abcdef' FROM 2 FOR 3); left('abc', 2)
right('abc', 2); lpad('7', 3, '0'); rpad('a', 3, '-'); trim('  a '); btrim('xax', 'x'); replace('abc', 'b', 'x')
split_part('a,b', ',', 2); repeat('ab', 2); reverse('abc'); concat('a', 1, true, NULL, 1.50)
concat_ws('-', 'a', NULL, 'b'); md5('a'); to_hex(255); coalesce(NULL, 'x'); coalesce('a'::varchar, 'x')
coalesce('a'::varchar(5), 'b'::varchar(5)); coalesce('a'::varchar(5), 'b'::text); nullif('a', 'b')
CASE WHEN true THEN 'a' END; CASE WHEN true THEN 'a'::varchar(3) ELSE 'b'::varchar(3) END; greatest('a', 'b'::varchar)
format('%s-%I-%L', 'a', 'b c', 'd''e'); format('%I', 'select'); format('%I %I %I', 'Table', 'x', 'user')
quote_ident('a b'); quote_literal('a''b'); quote_ident('order'); max(x) FROM (VALUES ('a'::varchar), ('b')) v(x)
string_agg(x, ',') FROM (VALUES ('a'), ('b')) v(x); translate('abc', 'ab', 'xy')
overlay('abcdef' PLACING 'xx' FROM 2 FOR 3); chr(65); starts_with('abc', 'a'); to_char(1234.5, '9,999.99')
to_char(timestamp '2024-02-29 13:04:05', 'YYYY-MM-DD HH24:MI:SS'); regexp_replace('abc', 'b', 'x')
encode('\x01ff', 'hex'); pg_typeof('a'::varchar); pg_typeof('a'::text); pg_typeof(1.5)
x FROM (VALUES ('a'::varchar(5))) v(x); x || 'b' FROM (VALUES ('a'::varchar(5))) v(x)
ARRAY['a', 'b c', 'd"e', 'NULL', '', NULL]; ARRAY['a'::varchar]; ARRAY['a'::varchar(3)]; string_to_array('a,b', ',')
array_agg(x) FROM (VALUES ('a'::varchar(5))) v(x); ROW('a', 'b c', NULL, ''); (SELECT 'a'::varchar(7))
'{a,"b c"}'::text[]; '{a}'::varchar[]; quote_nullable(NULL)
"""

BINARIES = r"""
'\x'::bytea; '\xDEADbeef'::bytea; 'abc'::bytea; 'a\\b'::bytea; '\001'::bytea; '\x01'::bytea || '\x02'::bytea
decode('AQ==', 'base64'); sha256('a'::bytea); ARRAY['\x01'::bytea]; length('\x0102'::bytea)
encode('\x01'::bytea, 'base64'); substring('\x010203'::bytea FROM 2 FOR 1); get_byte('\x0102'::bytea, 1)
md5('\x01'::bytea)
"""

TIMES = """
date '2024-02-29'; '2024-02-29'::date; date '0001-01-01'; date '9999-12-31'; date '2024-01-31' + 1
date '2024-01-01' - 1; timestamp '2024-02-29 12:34:56'; timestamp '2024-02-29 12:34:56.789'
timestamp '2024-02-29 12:34:56.123456'; timestamp '2024-02-29'; '2024-02-29T01:02:03'::timestamp
timestamp '2024-02-29 12:34:56.100'; timestamptz '2024-02-29 12:34:56+00'; timestamptz '2024-02-29 12:34:56+02'
timestamptz '2024-02-29 12:34:56.5 UTC'; timestamptz '2024-02-29 12:34:56-03:30'; timestamp '2024-02-29 12:00'::date
date '2024-02-29'::timestamp; timestamp '2024-02-29 12:00'::timestamptz; timestamptz '2024-02-29 12:00+00'::timestamp
date '2024-02-29'::timestamptz; timestamp '2024-02-29 12:00'::text; timestamptz '2024-02-29 12:00+00'::text
date '2024-02-29'::text; date_trunc('month', timestamp '2024-02-29 12:34')
date_trunc('day', timestamptz '2024-02-29 12:34+00'); date_trunc('hour', date '2024-02-29')
timestamp '2024-02-29' + interval '1 month'; timestamp '2024-01-31' + interval '1 month 1 day'
date '2024-01-31' + interval '1 day'; timestamptz '2024-02-29 00:00+00' - interval '1 hour'; to_timestamp(0)
to_timestamp(1.5); make_date(2024, 2, 29); make_timestamp(2024, 2, 29, 1, 2, 3.5); to_date('29.02.2024', 'DD.MM.YYYY')
timestamp '2024-02-29 12:00' AT TIME ZONE 'UTC'; timestamptz '2024-02-29 12:00+00' AT TIME ZONE 'Europe/Berlin'
timestamp '2024-07-01 12:00' AT TIME ZONE 'America/New_York'; date_part('year', date '2024-02-29')
ARRAY[date '2024-02-29', NULL]
ARRAY[timestamp '2024-02-29 12:00']; ARRAY[timestamptz '2024-02-29 12:00+00']
ROW(date '2024-02-29', timestamp '2024-02-29 12:00'); greatest(date '2024-01-01', date '2024-02-01')
timestamp(6) '2024-02-29 12:34:56.123456'; max(x) FROM (VALUES (date '2024-01-01')) v(x); timestamp 'epoch'
date_bin('15 minutes', timestamp '2024-02-29 12:34', timestamp '2024-01-01'); to_char(date '2024-02-29', 'Day')
"""

INTERVALS = """
interval '1 day'; interval '1 day 2 hours'; interval '30 days'; interval '90 minutes'; interval '1.5 seconds'
interval '0'; interval '-1 day'; interval '-2 hours'; interval '-1 day -2 hours'; interval '23:59:59.999999'
interval '2 weeks'; interval '1 day' + interval '1 hour'; interval '1 hour' * 3; interval '1 hour' / 2
timestamp '2024-03-01' - timestamp '2024-02-01'; timestamp '2024-03-01 12:00' - timestamp '2024-02-29 13:30'
timestamp '2024-02-01' - timestamp '2024-03-01 01:00'; interval 'PT1H30M'; interval '1 day'::text; - interval '1 hour'
interval '1' day; interval '5' minute; ARRAY[interval '1 day', NULL]; justify_hours(interval '26 hours')
make_interval(days => 1, hours => 2); interval '100 days 00:00:01'; interval '@ 1 day ago'
extract(day FROM interval '1 day 2 hours'); date_trunc('hour', interval '1 day 02:30')
sum(x) FROM (VALUES (interval '1 hour'), (interval '2 hours')) v(x)
avg(x) FROM (VALUES (interval '1 hour'), (interval '2 hours')) v(x); interval '1 day' > interval '23 hours'
interval '1 day 1 second'::text; to_char(interval '1 day 2 hours', 'DD HH24'); interval '26 hours'; interval '1 month'
interval '-1 day 2 hours'; interval '1 year 2 mons 3 days 04:05:06.789'; interval '-1 year -2 mons +3 days -04:05:06'
interval '1 mon -1 day +00:00:01'; interval '1.5 months'; interval '0.7 years'; interval '1.5 weeks'
interval '1.5 days'; interval '1-2'; interval '3 04:05:06'; interval 'P1Y2M3DT4H5M6S'; interval 'P0001-02-03T04:05:06'
interval '1h30m'; interval '1 century 2 decades'; interval '1 mon ago'; interval '12:30.5'; interval '1000 hours'
interval '-1-2'; interval '1' year; interval '2' month; interval '1 month' * 3; interval '1 month' * 1.5
interval '1 month' / 4; interval '1 mon 1 day' / 7; interval '1 year' / 3.7; interval '-1 mon 3 days 04:00' * 0.33
1.1 * interval '1 day 1 sec'; interval '1 month' + interval '30 days'; interval '1 month' - interval '30 days'
- interval '1 mon -2 days 03:00'; interval '1 month' = interval '30 days'; interval '1 month' > interval '31 days'
interval '24 hours' = interval '1 day'; interval '1 day' IN (interval '24 hours', interval '1 mon')
interval '1 day' BETWEEN '23 hours' AND '25 hours'; interval '1 day' IS DISTINCT FROM interval '24 hours'
nullif(interval '1 day', interval '24 hours'); interval '1 day' = ANY (ARRAY[interval '24 hours'])
CASE interval '1 day' WHEN interval '24 hours' THEN 1 END; ARRAY[interval '1 day'] = ARRAY[interval '24 hours']
ROW(interval '1 day', 1) = ROW(interval '24 hours', 1); ARRAY[interval '1 mon', '1 day', NULL]
array_position(ARRAY[interval '1 day'], interval '24 hours')
array_remove(ARRAY[interval '1 day', '1 hour'], interval '24 hours')
ARRAY[interval '1 day'] @> ARRAY[interval '24 hours']; ROW(interval '1 mon', 1); ARRAY[interval '1 mon 2 days']::text
to_jsonb(interval '1 mon 26 hours'); greatest(interval '1 day', interval '1 mon')
least(interval '1 day', interval '1 mon'); coalesce(NULL, interval '1 mon')
interval '1 year 2 mons 3 days 30:05:06.7'::text; NULL::interval; age(timestamp '2024-03-01', timestamp '2024-02-28')
age(timestamp '2001-04-10', timestamp '1957-06-13'); age(timestamp '2024-01-31 10:00', timestamp '2024-02-29 09:00')
age(date '2024-03-31', date '2024-02-29'); age(timestamp '2024-03-01 00:00', timestamp '2024-01-31 00:00:01')
age(timestamptz '2024-05-01 12:00+00', '2023-07-15 13:30+00'); make_interval(1, 2, 3, 4, 5, 6, 7.89)
make_interval(months => 14); make_interval(secs => 90061.5); make_interval(); justify_days(interval '35 days')
justify_days(interval '-35 days 1 mon'); justify_hours(interval '50:30'); justify_hours(interval '1 day -1 hour')
justify_interval(interval '1 mon -1 hour'); justify_interval(interval '35 days 50:30')
justify_interval(interval '-1 mon 31 days 25:00'); justify_interval(interval '1 day -25:00')
extract(year FROM interval '26 mons'); extract(month FROM interval '26 mons')
extract(day FROM interval '40 days 50:00'); extract(hour FROM interval '1 day 50:30')
extract(minute FROM interval '-01:30'); extract(second FROM interval '-90.5 sec')
extract(milliseconds FROM interval '90.5 sec'); extract(microseconds FROM interval '90.5 sec')
extract(quarter FROM interval '7 mons'); extract(decade FROM interval '25 years')
extract(century FROM interval '250 years'); extract(epoch FROM interval '1 year 1 mon 1 day 1.5 sec')
extract(epoch FROM interval '-1 mon'); date_part('hour', interval '30:00')
date_trunc('day', interval '1 mon 2 days 03:00'); date_trunc('month', interval '14 mons 5 days')
date_trunc('year', interval '26 mons 5 days'); date_trunc('hour', interval '-1 day -02:30')
date_trunc('quarter', interval '8 mons 1 day'); date_trunc('second', interval '1.9 sec')
date_trunc('decade', interval '25 years 3 mons'); timestamp '2024-01-31' + interval '1 mon' * 2
timestamp '2024-01-31' + interval '1 mon -1 day +26:00'; date '2024-03-31' - interval '1 mon 1 day'
timestamptz '2024-03-31 12:00+00' - interval '1 year 1 mon 1 day 01:00'; interval '1 day' + date '2024-01-31'
to_char(interval '50:30:15.5', 'HH24:MI:SS.MS'); to_char(interval '1 year 2 mons 3 days', 'YYYY MM DD')
isfinite(interval '1 mon'); sum(x) FROM (VALUES (interval '1 mon'), ('30:00'), (NULL)) v(x)
avg(x) FROM (VALUES (interval '1 mon'), ('30:00'), ('2 days')) v(x)
min(x) FROM (VALUES (interval '1 mon'), ('29 days'), ('800:00')) v(x)
max(x) FROM (VALUES (interval '1 mon'), ('29 days'), ('800:00')) v(x); sum(x) FROM (VALUES (NULL::interval)) v(x)
avg(x) FROM (VALUES (NULL::interval)) v(x); count(DISTINCT x) FROM (VALUES (interval '1 day'), ('24:00')) v(x)
array_agg(x ORDER BY x) FROM (VALUES (interval '1 mon'), ('29 days'), ('800:00')) v(x)
sum(x) FILTER (WHERE x > '1 hour') FROM (VALUES (interval '1 mon'), ('30 min')) v(x)
rank() OVER (ORDER BY x) FROM (VALUES (interval '1 day'), ('24:00'), ('23:00')) v(x)
max(x) OVER () FROM (VALUES (interval '1 mon')) v(x)
percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (interval '1 day'), ('23:00'), ('1 mon')) v(x)
"""

SPANS = (
    "1 mon", "30 days", "720:00", "30:00", "1 day 06:00", "-1 mon 2 days", "0", "-00:00:00.000001",
    "14 mons 3 days 4:05:06", "1 day -1 hour", "999 years", "1.1 sec", "-26:00", "1 mon -30 days",
)  # fmt: skip
"""Of a column: pairs of them are computed with, printed and compared."""

OF_SPANS = """
SELECT * FROM {t} ORDER BY id;
SELECT id, a + b, a - b, a * n, a * f, f * b, a / n, a / f, - a, n * a + b FROM {t} WHERE id % 7 = 0 ORDER BY id;
SELECT id, a = b, a < b, a <> b, a >= b, a IN (b, '1 day'), a BETWEEN b AND '1 mon', a IS NOT DISTINCT FROM b
    FROM {t} ORDER BY id;
SELECT id, a::text, ARRAY[a, b]::text, a || 'x', concat(a, b), to_jsonb(a), array_agg(a) OVER (PARTITION BY id)
    FROM {t} ORDER BY id;
SELECT id, extract(epoch FROM a), extract(day FROM a), extract(hour FROM a), extract(second FROM a),
    extract(year FROM a) FROM {t} ORDER BY id;
SELECT id, justify_interval(a), justify_days(a), justify_hours(a), date_trunc('day', a), date_trunc('hour', b)
    FROM {t} ORDER BY id;
SELECT id, ts + a, ts - b, date '2024-01-31' + b, (ts + a) - ts, age(ts + b, ts), make_interval(months => n,
    secs => f) FROM {t} WHERE abs(extract(epoch FROM a)) < 1e10 AND abs(extract(epoch FROM b)) < 1e10 ORDER BY id;
SELECT id, coalesce(c, a), CASE WHEN a > b THEN a ELSE b END, nullif(a, b), greatest(a, b, c), (coalesce(c, a) +
    b) * 2 FROM {t} WHERE a <> b ORDER BY id;
SELECT sum(a), avg(a), min(b), max(b), count(a), count(DISTINCT a), count(c), sum(c), avg(b) FROM {t};
SELECT n, sum(a), avg(a), min(a), max(a) FROM {t} GROUP BY n ORDER BY n;
SELECT extract(epoch FROM a), grouping(a), n, count(*) FROM {t} GROUP BY GROUPING SETS ((a), (n), (a, n))
    ORDER BY 1, 2, 3;
SELECT sum(DISTINCT a), avg(DISTINCT a), sum(DISTINCT a) FILTER (WHERE false) FROM {t}
    WHERE a NOT IN ('1 mon', '30:00', '0');
SELECT a, id FROM {t} WHERE a < b ORDER BY a DESC, id LIMIT 20;
SELECT extract(epoch FROM a), count(*) FROM {t} GROUP BY a ORDER BY 1;
SELECT id, rank() OVER (ORDER BY a), count(*) OVER (PARTITION BY a), lag(a) OVER (ORDER BY id), sum(a) OVER
    (ORDER BY id) FROM {t} ORDER BY id;
SELECT v, v::interval, (v || ' ago')::interval FROM (SELECT DISTINCT a::text AS v FROM {t}) u
    ORDER BY v COLLATE "C";
SELECT v::interval FROM (SELECT * FROM (VALUES (1, '1 day 2 hours'), (2, '1.5 mons'), (3, '0.7 years'), (4, '26:00'),
    (5, '3 04:05:06.7'), (6, '5'), (7, '1h30m'), (8, '@ 2 weeks ago'), (9, '-1 mon +3 days -00:01'), (10, NULL),
    (11, '1.5 weeks'), (12, '100 ms'), (13, '2 centuries'), (14, '1 yr, 2 mons')) x (id, v) LIMIT 20) u ORDER BY id;
SELECT id, l, l[1], l || a, array_position(l, b), a = ANY (l) FROM {t} ORDER BY id;
SELECT (SELECT count(*) FROM (SELECT DISTINCT a FROM {t}) d),
    (SELECT count(*) FROM (SELECT a FROM {t} UNION SELECT b FROM {t}) u),
    (SELECT count(*) FROM (SELECT a FROM {t} WHERE id < 30 EXCEPT SELECT b FROM {t} WHERE id > 150) u),
    (SELECT count(*) FROM (SELECT a FROM {t} INTERSECT SELECT '30 days') u),
    (SELECT count(*) FROM {t} x JOIN {t} y ON x.a = y.b),
    (SELECT count(*) FROM {t} x LEFT JOIN {t} y ON x.a = y.b AND y.id < 5 WHERE y.id IS NULL),
    (SELECT count(*) FROM {t} WHERE a IN (SELECT b FROM {t} WHERE id < 3)),
    (SELECT count(*) FROM {t} WHERE a NOT IN (SELECT b FROM {t} WHERE id < 3)),
    (SELECT count(*) FROM {t} WHERE a > ALL (SELECT b FROM {t} WHERE id < 3)),
    (SELECT count(DISTINCT x) FROM (SELECT unnest(l) AS x FROM {t}) u);
"""
"""Queries on a table of all pairs of them."""

JSONS = r"""
'{"b": 1, "a": [1, null]}'::jsonb; '"a"'::jsonb; 'null'::jsonb; '[]'::jsonb; '{}'::jsonb; '1'::jsonb; '-1'::jsonb
'1.5'::jsonb; 'true'::jsonb; '{"a": {"b": "c"}}'::jsonb -> 'a'; '{"a": 1}'::jsonb ->> 'a'
'{"aa": 1, "b": 2, "a": 1}'::jsonb; '{"a": 1, "a": 2}'::jsonb; '"\u00fc\n"'::jsonb; '"a\"b\\c"'::jsonb
'[1, "x", true, null, {"k": []}]'::jsonb; '12345678901234567890'::jsonb; '1e2'::jsonb; '1.25e-2'::jsonb; '0.5'::jsonb
to_jsonb(1); to_jsonb('a'::text); to_jsonb(true); to_jsonb(ARRAY[1, NULL]); to_jsonb(1.5); to_jsonb(date '2024-02-29')
to_jsonb(timestamp '2024-02-29 12:34:56'); to_jsonb(0.1::float8); to_jsonb(1e20::float8)
jsonb_build_object('a', 1, 'b', 'x'); jsonb_build_array(1, 'a', NULL, true); '{"a": [1, 2]}'::jsonb #> '{a,0}'
'{"a": [1, 2]}'::jsonb #>> '{a,1}'; '{"a": 1}'::jsonb || '{"b": 2}'::jsonb; '{"a": 1}'::jsonb - 'a'
'"a b"'::jsonb #>> '{}'; '{"a": [1, 2]}'::jsonb #> '{}'; jsonb_object_agg(x, 1) FROM (VALUES (date '2024-02-29')) v(x)
'{"a": 1}'::jsonb @> '{}'; '{"a": 1}'::jsonb ? 'a'; jsonb_typeof('1'); ('{"a": 1.5}'::jsonb ->> 'a')::numeric
('{"a": 1}'::jsonb -> 'a')::int; '{"a": 1}'::jsonb::text; jsonb_pretty('{"a": [1]}'::jsonb)
jsonb_agg(x) FROM (VALUES (1), (2)) v(x); jsonb_object_agg(x, x) FROM (VALUES ('a')) v(x); ARRAY['{"a": 1}'::jsonb]
jsonb_set('{"a": 1}'::jsonb, '{a}', '2'); '"<>&/"'::jsonb; '{"ü": 1}'::jsonb; jsonb_array_length('[1, 2]')
' [ 1 , 2 ] '::jsonb
"""

ARRAYS = """
ARRAY[1, 2, NULL]; '{}'::int[]; '{1,2}'::int[]; ARRAY[[1, 2], [3, 4]]; ARRAY[1, 2::bigint]; ARRAY[true, false]
'{t,f}'::boolean[]; ARRAY[1, 2] || 3; ARRAY[1] || ARRAY[2]; 0 || ARRAY[1]; array_append(ARRAY[1], 2)
(ARRAY[1, 2, 3])[2]; (ARRAY[1, 2, 3])[2:3]; (ARRAY[1])[5]; array_length(ARRAY[1, 2], 1); cardinality(ARRAY[1, 2])
ARRAY[1, 2]::text[]; ARRAY['1']::int[]; array_to_string(ARRAY[1, NULL, 3], ',', '*'); 1 = ANY(ARRAY[1, 2])
array_position(ARRAY['a', 'b'], 'b'); array_remove(ARRAY[1, 2, 1], 1); ARRAY[]::text[]; NULL::int[]
array_agg(x ORDER BY x) FROM (VALUES (2), (1)) v(x); ARRAY[1, 2]::text; ARRAY['{', ',', ' ']; ARRAY[1] @> ARRAY[1]
ARRAY[1::smallint]; ARRAY[1.5::real]; ROW(1, 'a', NULL); ROW(); ROW(1); ROW(true, 1.50, date '2024-02-29')
ROW('a"b', 'c\\d', '(x)'); ROW(ARRAY[1, 2], ROW(1, 2))
"""

AGGREGATES = """
count(*) FROM (VALUES (1), (2)) v(x); sum(x) FROM (VALUES (1::smallint)) v(x); sum(x) FROM (VALUES (1)) v(x)
bool_and(x) FROM (VALUES (true), (false)) v(x); row_number() OVER () FROM (VALUES (1)) v(x)
bit_and(x) FROM (VALUES (7), (3)) v(x); rank() OVER (ORDER BY x) FROM (VALUES (1)) v(x)
lag(x) OVER (ORDER BY x) FROM (VALUES (1.50)) v(x)
first_value(x) OVER (ORDER BY x) FROM (VALUES ('a'::varchar(4))) v(x)
percent_rank() OVER (ORDER BY x) FROM (VALUES (1)) v(x); ntile(2) OVER (ORDER BY x) FROM (VALUES (1)) v(x)
count(DISTINCT x) FROM (VALUES (1), (1)) v(x); mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (1)) v(x)
percentile_cont(0.5) WITHIN GROUP (ORDER BY x::float8) FROM (VALUES (1), (2)) v(x)
"""

DECLARED = """
b boolean, s smallint, i integer, l bigint, n numeric, n2 numeric(10,2), n0 numeric(5), n38 numeric(38,4),
r real, d double precision, t text, v varchar, v5 varchar(5), x bytea, dt date, ts timestamp, tz timestamptz,
iv interval, j jsonb, ai integer[], an numeric(10,2)[], at text[], av varchar(5)[], ats timestamp[]
"""

ROWS = [
    r"""true, 1, 2, 3, 1.25, 1.5, 7, 1.5, 1.5, 0.1, 'a b', 'v', 'v5', '\x00ff', '2024-02-29', '2024-02-29 12:34:56.789',
    '2024-02-29 12:34:56+02', '1 day 2 hours', '{"b": [1, null], "a": "x"}', '{1,NULL}', '{1.5,2}', '{a,"b c",NULL}',
    '{a}', '{"2024-02-29 12:00:00"}'""",
    r"""false, -32768, -2147483648, -9223372036854775808, -0.5, -0.05, 0, -12345678901234567890.1234, 'NaN',
    '-Infinity',
    '', 'ü', '', '\x', '0001-01-01', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:00+00', '-90 minutes', '"\u00fc"',
    '{}', '{}', '{}', '{}', '{}'""",
    ", ".join(["NULL"] * 24),
]

OF_COLUMNS = """
n2 + 1; n2 * 2; n2 * n2; n2 - n0; n38 + 1; n38 * 1.5; sum(n2); sum(n38); sum(l); sum(i); max(n2); max(v5); min(v)
round(n2, 1); round(n38, 2); coalesce(n2, 0.00); coalesce(v5, 'x'); v || t; v5 || 'x'; t; v5; v5::text; v5::varchar
v::varchar(2); n2::numeric(12,3); n2::text; abs(n2); - n2; n2::int; n2::numeric; nullif(n2, 0)
CASE WHEN b THEN n2 END; greatest(n2, n2); array_agg(n2 ORDER BY i)
array_agg(v5 ORDER BY i); upper(v); lower(v5); left(v5, 1); (ai)[1]; (an)[1]; (av)[1]; an || an; at || 'x'::text
sum(iv); ts::date; ts - ts; tz - tz; dt - dt; j -> 'b'; j ->> 'a'; count(n2); string_agg(v5, ',' ORDER BY i); min(dt)
max(tz); first_value(v5) OVER (ORDER BY i); lag(n2) OVER (ORDER BY i); sum(n2) OVER (ORDER BY i); row(n2, v5)
n2 IS NULL
"""

DIFFERENT = {
    # Spark's decimals have one scale for a column, and no more than 38 digits.
    "greatest(1.50, 2)": "2.00",
    "least(1.5, 1.50)": "1.50",
    "ARRAY[1.50, 2]": "{1.50,2.00}",
    "to_number('12.30', '99.99')": "12.3",
    # PostgreSQL goes on with what it has rounded to 16 digits.
    "22 / 7.0 / 3": "1.04761904761904761905",
    "10 / 3.0 * 100": "333.3333333333333333",
    # A quotient has no more than 20 decimals.
    "1 / 30000.0": "0.00003333333333333333",
    "(1 / 30000.0)::text": "0.00003333333333333333",
    # Text is made by the value alone, which might have been stored: it begins with the digit 1.
    "(1.5 / 1)::text": "1.5000000000000000",
    "q FROM (SELECT 1.5 / 1 AS q) v": "1.5000000000000000",
    # Java's functions, not C's: the last digit may be another.
    "exp(1::float8)": "2.7182818284590455",
    # Types that there are not: a regtype, an interval of days only, a timestamp whose digits were declared.
    "pg_typeof('a'::varchar)": (25, -1, "character varying"),
    "pg_typeof('a'::text)": (25, -1, "text"),
    "pg_typeof(1.5)": (25, -1, "numeric"),
    "timestamp(6) '2024-02-29 12:34:56.123456'": (1114, -1, "2024-02-29 12:34:56.123456"),
    "interval '1' day": (1186, -1, "1 day"),
    "interval '5' minute": (1186, -1, "00:05:00"),
    "interval '1' year": (1186, -1, "1 year"),
    "interval '2' month": (1186, -1, "2 mons"),
}
"""What Headrace answers instead of what PostgreSQL does: a text, or number and modifier of the type, too. docs/sql.md
and docs/server.md say why."""

EXPRESSIONS = {
    name: [each.strip() for line in text.strip().splitlines() for each in line.split(";") if each.strip()]
    for name, text in {
        "booleans": BOOLEANS, "integers": INTEGERS, "numerics": NUMERICS, "quotients": QUOTIENTS,
        "floats": FLOATS, "texts": TEXTS, "binaries": BINARIES, "times": TIMES,
        "intervals": INTERVALS, "jsons": JSONS, "arrays": ARRAYS,
        "aggregates": AGGREGATES,
    }.items()
}  # fmt: skip

KNOWN = {
    "sqrt(2.0)": "1.4142135623730951",
    "'1.50'::jsonb": "1.5",
    """'{"aa": 1, "b": 2}'::jsonb::text""": '{"aa": 1, "b": 2}',
    """'{"a": {"b": 1}}'::jsonb ->> 'a'""": '{"b":1}',
    "x FROM (VALUES (1), (2.50)) v(x)": "1.00",
    "coalesce(NULL::numeric(10,2), 0)": "0.00",
}
"""Values that differ, as the SQL reference lists them: the query, and what Headrace prints."""

REFUSED = {
    "interval '300000 years'": "22015",
    "timetz '12:34+02'": "0A000",
    "current_time": "0A000",
    "sum(x) FROM (VALUES (time '04:05')) v(x)": "42883",
    "x::time FROM (VALUES ('04:05 PST'::text)) v(x)": "22007",
    "time '04:05 BC'": "22007",
    "'a'::char(3)": "0A000",
    "'NaN'::numeric": "0A000",
    "timestamp 'infinity'": "22007",
    "date '0044-03-15 BC'": "22007",
    "123456789012345678901234567890123456789.5": "0A000",
}
"""What PostgreSQL answers and Headrace refuses: the query, and the SQLSTATE."""

SAME_ERRORS = r"""
SELECT foo(1)
SELECT 1, foo('x', a) FROM et
SELECT * FROM foo(1)
SELECT $1
SELECT a FROM et WHERE k = $1
INSERT INTO et VALUES ($1)
SELECT a FROM et ORDER BY 2
SELECT a FROM et ORDER BY 0
SELECT a FROM et GROUP BY 3
SELECT a FROM et ORDER BY 'x'
SELECT DISTINCT a FROM et ORDER BY v
SELECT DISTINCT ON (v) a FROM et ORDER BY a
SELECT 1 UNION SELECT 2 ORDER BY 3
SELECT 1 AS a UNION SELECT 2 ORDER BY a + 1
SELECT a FROM et LIMIT -1
SELECT a FROM et OFFSET -1
SELECT a FROM et LIMIT a
SELECT sqrt(-1)
SELECT sqrt(a - 2) FROM et
SELECT ln(0)
SELECT ln(-1)
SELECT ln(a - 1) FROM et
SELECT log(0)
SELECT 1 / 0
SELECT a / 0 FROM et
SELECT 1.0 / 0
SELECT 1::float8 / 0
SELECT 1 % 0
SELECT mod(1, 0)
SELECT acos(2)
SELECT 2147483647 + 1
SELECT 9223372036854775807 + 1
SELECT 32767::smallint + 1::smallint
SELECT 100000::smallint
SELECT 1e10::int
SELECT '99999999999'::int
SELECT 'x'::int
SELECT 'x'::numeric
SELECT 'x'::boolean
SELECT 'x'::date
SELECT '2024-13-01'::date
SELECT '2024-02-30'::timestamp
SELECT 'x'::interval
SELECT 'x'::jsonb
SELECT 'x'::bytea, '\xZZ'::bytea
SELECT '1.5'::int
SELECT v::int FROM et
SELECT v::date FROM et
SELECT v::numeric FROM et
SELECT 123456.789::numeric(5,2)
SELECT '{1,2'::int[]
SELECT 1 + 'x'
SELECT 1 + true
SELECT a + v FROM et
SELECT a = v FROM et
SELECT a || a FROM et
SELECT NOT a FROM et
SELECT a FROM et WHERE a
SELECT CASE WHEN a THEN 1 END FROM et
SELECT CASE WHEN true THEN 1 ELSE v END FROM et
SELECT 1, 2 UNION SELECT 1
SELECT nope FROM et
SELECT et.nope FROM et
SELECT x.a FROM et
SELECT a FROM nope
SELECT a FROM public.nope
SELECT a FROM other.et
SELECT a FROM et x JOIN et y ON true
SELECT a, count(*) FROM et
SELECT count(*) FROM et WHERE count(*) > 1
SELECT sum(count(*)) FROM et
SELECT a FROM et HAVING a > 1
SELECT sum(v) FROM et
SELECT abs('x'::text)
SELECT length(1)
SELECT upper(1)
SELECT rank()
SELECT rank() OVER (ORDER BY nope) FROM et
SELECT (SELECT generate_series(1, 2))
SELECT * FORM et
SELECT 1 +
SELEC 1
SELECT 'abc
SELECT (1
SELECT 1)
INSERT INTO et (k, nope) VALUES (1, 2)
INSERT INTO et VALUES (2, 'x')
INSERT INTO et (k, nn) VALUES (2, NULL)
INSERT INTO et (k) VALUES (NULL)
INSERT INTO et (k, n) VALUES (2, 12345)
INSERT INTO nope VALUES (1)
UPDATE et SET nope = 1
UPDATE et SET a = 1, a = 2
UPDATE et SET a = 'x'
UPDATE et SET nn = NULL
UPDATE nope SET a = 1
DELETE FROM nope
DELETE FROM et WHERE nope = 1
CREATE TABLE et (a int)
CREATE TABLE e2 (a int, a int)
CREATE TABLE e2 (a int DEFAULT 'x')
DROP VIEW et
CREATE MATERIALIZED VIEW et AS SELECT 1
CREATE VIEW e3 AS SELECT nope FROM et
SELECT a COLLATE "nowhere" FROM et
SELECT v COLLATE "nowhere" FROM et
SELECT '{"a"'::jsonb
SELECT jsonb_array_length('{}')
SELECT ('{"a": "x"}'::jsonb ->> 'a')::int
SELECT ARRAY[1, 'x']
SELECT (ARRAY[1])['x']
SELECT chr(-1)
SELECT format('%I', NULL)
SELECT get_byte('\x01'::bytea, 5)
SELECT generate_series(1, 2, 0)
SELECT string_agg(v) FROM et
EXPLAIN SELECT nope FROM et
WITH c AS (SELECT 1) SELECT nope FROM c
WITH c AS (SELECT 1), c AS (SELECT 2) SELECT 1
SELECT 1 AS x, x + 1
SELECT to_date('x', 'YYYY')
SELECT interval '1 fortnight'
SELECT substring('abc' FROM 1 FOR -1)
SELECT timestamp '2024-01-01' + 1
SELECT date '2024-01-01' + date '2024-01-01'
SELECT interval '1 day' + 1
SELECT make_date(2024, 13, 1)
SELECT to_number('x', '9')
SELECT true + 1
SELECT sum(true)
SELECT nope::int
"""
"""Statements, one in a line, that both refuse with the same SQLSTATE and position. ``et`` has one row."""

SAME_CODES = r"""
SELECT a FROM et LIMIT 'x'
SELECT - v FROM et
SELECT coalesce(a, v) FROM et
SELECT 1 UNION SELECT true
SELECT substring(1 FROM 2)
SELECT (SELECT a, k FROM et)
SELECT a FROM et WHERE a IN (SELECT a, k FROM et)
SELECT * FROM et, et
SELECT * FROM (SELECT 1)
INSERT INTO et VALUES (1, 2, 3, 4, 5, 6, 7)
INSERT INTO et (k, k) VALUES (1, 2)
INSERT INTO et (k, a) VALUES (1)
INSERT INTO et (k, d) VALUES (2, 5)
INSERT INTO et (k, a) VALUES (2, '2024-01-01'::date)
CREATE TABLE e2 (a nope)
CREATE TABLE e2 (a int PRIMARY KEY, b int PRIMARY KEY)
DROP TABLE nope
CREATE INDEX i ON et (nope)
CREATE INDEX i ON nope (a)
SELECT extract(nope FROM d) FROM et
SELECT date_trunc('nope', d) FROM et
SELECT timestamp '2024-01-01' AT TIME ZONE 'Nowhere/Land'
SELECT ARRAY[1, true]
SELECT format('%s')
SELECT lag(v, 'x') OVER (ORDER BY k) FROM et
TRUNCATE nope
VALUES (1), (1, 2)
VALUES (1), ('x')
SELECT regexp_replace('a', '(', 'b')
SELECT 'a' ~ '('
SELECT 'a' LIKE 'a' ESCAPE 'xx'
SELECT 1::nope
"""
"""The same, where positions differ: mostly because PostgreSQL finds out only when it runs the query, and has none."""
