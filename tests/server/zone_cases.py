"""What both servers are asked in several time zones. See test_zones_like_postgres.py."""

from __future__ import annotations

ZONES = ("Europe/Berlin", "Asia/Kolkata", "-3")

# Instants before, in and behind the hours that Berlin's, New York's and Los Angeles' clocks skip or show twice in 2024.
INSTANTS = (
    "2024-01-15 12:00:00+00", "2024-03-10 06:59:59+00", "2024-03-10 07:00:00.5+00", "2024-03-31 00:30:00+00",
    "2024-03-31 01:30:00+00", "2024-07-01 22:15:30.123456+00", "2024-10-27 00:30:00+00", "2024-10-27 01:30:00+00",
    "2024-11-03 05:30:00+00", "2024-11-03 06:30:00+00", "1960-06-01 00:00:00+00", "1850-01-01 00:00:00+00",
)  # fmt: skip

LOCAL = (
    "2024-01-15 12:00:00", "2024-03-31 02:30:00", "2024-03-10 02:30:00", "2024-10-27 02:30:00", "2024-11-03 01:30:00",
    "2024-07-01 00:00:00", "2024-12-31 23:59:59.999999",
)  # fmt: skip

OF_INSTANTS = """
t; t::timestamp; t::date; t::text; t::timestamp::text; t::date::timestamptz; t::timestamp::timestamptz
t AT TIME ZONE 'Asia/Tokyo'; t AT TIME ZONE '+02'; t AT TIME ZONE 'CEST'; t AT TIME ZONE 'UTC'
date_trunc('year', t); date_trunc('quarter', t); date_trunc('month', t); date_trunc('week', t); date_trunc('day', t)
date_trunc('hour', t); date_trunc('minute', t); date_trunc('second', t); date_trunc('decade', t)
date_trunc('century', t)
date_trunc('day', t, 'Australia/Sydney'); date_trunc('hour', t, 'Asia/Kolkata'); date_trunc('month', t)::date
extract(year FROM t); extract(month FROM t); extract(day FROM t); extract(hour FROM t); extract(minute FROM t)
extract(second FROM t); extract(epoch FROM t); extract(dow FROM t); extract(doy FROM t); extract(week FROM t)
extract(isoyear FROM t); extract(timezone FROM t); extract(timezone_hour FROM t); extract(timezone_minute FROM t)
date_part('hour', t); to_char(t, 'YYYY-MM-DD HH24:MI:SS.US'); to_char(t, 'Day DD Mon'); to_char(t, 'IYYY-IW')
t + interval '1 hour'; t + interval '1 day'; t - interval '1 day'; t + interval '1 month'; t - interval '1 year'
t + interval '2 days 3 hours'; t + interval '1 month 1 day'; t - interval '30 minutes'; interval '1 week' + t
to_jsonb(t); jsonb_build_object('at', t); to_jsonb(ARRAY[t, NULL]); ARRAY[t, '2024-07-01']; ARRAY[t]::text[]; ROW(t, 1)
ARRAY[t]::text; t || 'x'; concat(t, '|', t::date); format('%s', t); concat_ws(',', t, t); quote_literal(t::text)
t > '2024-07-01'; t = t::timestamp; t >= date '2024-07-01'; t BETWEEN '2024-03-31' AND '2024-11-03 01:30'
t IN ('2024-07-02 00:15:30.123456', '2024-01-15 13:00'); t <> ALL (ARRAY['2024-01-15 13:00'::timestamptz])
coalesce(NULL, t, '2024-07-01'); greatest(t, '2024-07-01'); least(t, date '2024-07-01'); nullif(t, '2024-01-15 13:00')
CASE WHEN t > '2024-07-01' THEN t ELSE '2024-07-01 12:00' END; t IS NOT DISTINCT FROM '2024-07-02 00:15:30.123456'
age(t, '2024-01-01 00:00+00'::timestamptz)::text; age('2025-01-01 00:00'::timestamptz, t)::text
 t - '2024-01-01'::timestamptz
date_bin('15 minutes', t, '2024-01-01'::timestamptz); t::date + 1; (t::date)::text; t::text::timestamptz
(t::timestamp)::text::timestamptz; t::timestamptz::text::date; extract(epoch FROM t::timestamp)
to_timestamp(extract(epoch FROM t)::float8); make_timestamptz(2024, 7, 1, extract(hour FROM t)::int, 0, 0)
t AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York'; date_trunc('day', t AT TIME ZONE 'Asia/Tokyo')
"""

OF_LOCAL = """
l; l::timestamptz; l::date::timestamptz; l::text::timestamptz; l AT TIME ZONE 'Asia/Tokyo'; l::timestamptz::date
l::timestamptz + interval '1 day'; l::timestamptz - interval '1 month'; date_trunc('hour', l::timestamptz)
l::timestamptz::text
l = l::timestamptz; l < '2024-07-01'::timestamptz; to_jsonb(l); to_jsonb(l::timestamptz); extract(epoch FROM l)
to_timestamp(to_char(l, 'YYYY-MM-DD HH24:MI:SS'), 'YYYY-MM-DD HH24:MI:SS'); extract(epoch FROM l::timestamptz)
"""

ALONE = """
'2024-07-01'::timestamptz; '2024-07-01 12:00'::timestamptz; '2024-07-01 12:00+05:30'::timestamptz
'2024-07-01 12:00:00Z'::timestamptz; '2024-07-01 12:00 Asia/Tokyo'::timestamptz; '2024-07-01 12:00 PST'::timestamptz
timestamptz '2024-10-27 02:30'; timestamptz '2024-03-31 02:30'; timestamp with time zone '2024-11-03 01:30'
'2024-07-01 12:00+02'::timestamp; '2024-07-01 23:00+02'::date; 'epoch'::timestamptz; '2024-07-01'::date::timestamptz
make_timestamptz(2024, 7, 1, 12, 30, 5.5); make_timestamptz(2024, 7, 1, 12, 30, 0, 'Asia/Tokyo')
to_timestamp(0); to_timestamp('2024-07-01', 'YYYY-MM-DD'); '{2024-07-01,2024-01-01 12:00}'::timestamptz[]
now()::date = current_date; localtimestamp = now()::timestamp; current_date = localtimestamp::date
now() = localtimestamp::timestamptz; '2024-07-01'::timestamptz = '2024-07-01'::date; date '2024-07-01' < now()
(SELECT max(x) FROM (VALUES ('2024-07-01'::timestamptz), ('2024-08-01')) v(x))
(SELECT count(*) FROM generate_series('2024-03-30'::timestamptz, '2024-04-02', '1 day') g)
(SELECT array_agg(g) FROM generate_series('2024-10-26'::timestamptz, '2024-10-29', interval '1 day') g)
(SELECT array_agg(g) FROM generate_series('2024-10-27 00:00+00'::timestamptz, '2024-10-27 03:00+00', '1 hour') g)
(SELECT array_agg(g) FROM generate_series('2024-01-31'::timestamptz, '2024-05-01', interval '1 month') g)
(SELECT array_agg(g) FROM generate_series(date '2024-03-30', date '2024-04-01', interval '12 hours') g)
(SELECT jsonb_agg(x ORDER BY x) FROM (VALUES ('2024-07-01'::timestamptz), ('2024-01-01 12:00')) v(x))
(SELECT string_agg(x::text, ',') FROM (SELECT '2024-07-01'::timestamptz AS x) v)
(SELECT jsonb_object_agg(x, x) FROM (SELECT '2024-07-01'::timestamptz AS x) v)
(SELECT min(x) FROM (SELECT '2024-07-01'::timestamptz AS x UNION ALL SELECT timestamp '2024-06-01 12:00') v)
(SELECT lag(x, 1, '2024-01-01') OVER (ORDER BY x) FROM (SELECT '2024-07-01'::timestamptz AS x) v)
(SELECT count(*) FILTER (WHERE x::date = '2024-07-01') FROM (SELECT '2024-07-01 00:30'::timestamptz AS x) v)
'2024-07-01 00:30'::timestamptz IN (SELECT timestamp '2024-07-01 00:30')
timestamp '2024-07-01 00:30' IN (SELECT '2024-07-01 00:30'::timestamptz)
EXISTS (SELECT 1 FROM (SELECT '2024-07-01'::timestamptz AS x) v WHERE x = date '2024-07-01')
"""


def listed(text: str) -> list[str]:
    return [each.strip() for line in text.strip().splitlines() for each in line.split(";") if each.strip()]


NAMES = (
    "'Europe/Berlin'", "'europe/berlin'", "'+02'", "'-5'", "5.5", "-3", "+3", "0", "'0'", "'+02:00'", "'UTC+3'",
    "'utc'", "'PST8PDT'", "'EST'", "'Zulu'", "'GMT-02:00'", "'<+02>-02'", "'FOO5'", "'foo5'",
    "INTERVAL '-08:00' HOUR TO MINUTE",
    "INTERVAL '05:30'", "'Etc/GMT+5'", "'5.5'", "LOCAL", "DEFAULT", "UTC", "'America/New_York'",
)  # fmt: skip
WRONG_NAMES = ("'PST'", "'Z'", "'Mars/Olympus'", "''", "' UTC'", "'CEST'", "Europe", "'America/New_York '", "168")
