"""What both servers are asked about the types uuid and time. See test_types_like_postgres.py."""

from __future__ import annotations

_SHORT = {
    "<a>": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "<A>": "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
    "<b>": "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "<B>": "B0EEBC999C0B4EF8BB6D6BB9BD380A11",
}  # fmt: skip


def _in_full(text: str) -> str:
    for short, uuid in _SHORT.items():
        text = text.replace(short, uuid)
    return text


UUIDS = """
'<a>'::uuid; uuid 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'; NULL::uuid
'{<a>}'::uuid; 'a0eebc999c0b4ef8bb6d6bb9bd380a11'::uuid
'a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11'::uuid; '{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}'::uuid
uuid 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::text; uuid '<a>'::varchar(8)
'<A>'::text::uuid; CAST('00000000-0000-0000-0000-000000000000' AS uuid)
uuid '<a>' || 'x'; concat(uuid '<a>', 1)
uuid '<a>' = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'
uuid '<a>' < '{FFEEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'
uuid '<a>' <> uuid '<a>'
uuid '<a>' IN ('<A>', NULL)
uuid '<a>' BETWEEN '00000000-0000-0000-0000-000000000000' AND 'ffffffffffffffffffffffffffffffff'
uuid '<a>' IS DISTINCT FROM NULL
uuid '<a>' = ANY ('{<A>,NULL}')
nullif(uuid '<a>', '<A>')
coalesce(NULL, uuid '<a>'); coalesce(NULL::uuid, '<A>')
greatest(uuid '<a>', '<b>')
least(uuid '<a>', '<b>')
CASE WHEN true THEN uuid '<a>' ELSE NULL END
ARRAY[uuid '<a>', '<A>', NULL]
'{<A>,NULL}'::uuid[]; ARRAY['<A>']::uuid[]; '{}'::uuid[]
ARRAY[uuid '<a>']::text[]; ARRAY[uuid '<a>']::text
array_position(ARRAY[uuid '<a>'], '<A>')
ROW(uuid '<a>', 1); to_jsonb(uuid 'A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')
to_jsonb(ARRAY[uuid '<a>', NULL]); md5(uuid '<a>'::text)
jsonb_build_object('u', uuid '<a>')
('{"u": "<A>"}'::jsonb ->> 'u')::uuid; pg_typeof(gen_random_uuid())::text
pg_typeof(ARRAY[gen_random_uuid()])::text; length(gen_random_uuid()::text); gen_random_uuid() = gen_random_uuid()
format('%s|%L', uuid '<a>', uuid '<a>')
num_nulls(NULL::uuid, 1); x FROM (VALUES (uuid '<a>')) v(x)
count(DISTINCT x) FROM (VALUES (uuid '<a>'), ('<A>')) v(x)
array_agg(x ORDER BY x DESC) FROM (VALUES (uuid '<a>'), ('<B>')) v(x)
jsonb_agg(x) FROM (VALUES (uuid '<a>'), (NULL)) v(x)
jsonb_object_agg(x, 1) FROM (VALUES (uuid '<a>')) v(x)
first_value(x) OVER (ORDER BY x) FROM (VALUES (uuid '<a>')) v(x)
rank() OVER (ORDER BY x) FROM (VALUES (uuid '<a>'), ('<A>')) v(x)
mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (uuid '<a>')) v(x)
x::uuid FROM (VALUES ('{<A>}'::text), (NULL)) v(x)
"""

TIMES = """
time '04:05:06.789'; time '04:05'; '040506'::time; '0405'::time; '040506.789'::time; time '04:05 AM'; time '04:05 PM'
time '12:30 am'; time '12:30PM'; time '00:30 PM'; time '04:05:06-08'; time '04:05:06 -8:00'; time '04:05:06 UTC'
time '04:05:06.789-0300'; time '04:05:06z'; time '2024-07-01 04:05:06'; time '2024-07-01 04:05 Europe/Berlin'
time 'T04:05:06'; time 'T040506'; time '4:5'; time '4:5:6'; time '24:00:00'; time '24:00'; time '23:59:60'
time '23:59:59.9999999'; time '00:00:00.0000005'; time '00:00:00.0000015'; time ' 04:05 '; time 'allballs'
time '04:05.5'; time '004:05'; time '1:2:3.4pm'; time '04:05:06.1234567'; time '00:00'; time '04:05:06.100'
time(3) '04:05:06.7895'; time(0) '23:59:59.5'; time(0) '04:05:06.5'; time(7) '04:05:06.5'; time(6) '04:05:06.5'
'04:05:06.789'::time(2); '04:05:06.785'::text::time(2); (time '04:05:06.789')::time(1); NULL::time; NULL::time(2)
time(3) '04:05' + interval '0.0001 sec'; greatest(time(3) '04:05', time '05:06')
CASE WHEN true THEN time(2) '04:05' ELSE time(2) '04:06' END; ARRAY[time(2) '04:05']
max(x) FROM (VALUES (time(3) '04:05')) v(x); x FROM (VALUES (time(3) '04:05'), ('04:06')) v(x)
time without time zone '04:05'; time(2) without time zone '04:05:06.789'; time '04:05' + interval '1 hour'
time '23:05' + interval '1 hour'; time '04:05' - interval '5 hour'; time '04:05' + interval '1 day 1 month 1 hour'
time '04:05' + interval '-100 hours'; time '24:00' + interval '0'; interval '1 hour' + time '04:05'
interval '1 hour' - time '04:05'; time '04:05' - time '05:05'; time '04:05' * 2; 2 * time '04:05'; time '04:05' / 2
time '04:05' * 1.5; - time '04:05'; time '04:05' + '1 hour'; '1 hour' + time '04:05'; time '04:05' - '01:00'
date '2024-01-01' + time '04:05:06.7'; time '04:05' + date '2024-01-01'; date '2024-01-01' - time '04:05'
timestamp '2024-01-01' + time '04:05'; timestamp '2024-01-01' - time '04:05'; time '04:05' + timestamp '2024-01-01'
timestamptz '2024-01-01 00:00+00' + time '04:05'; date '2024-01-01' + time '24:00'; time '04:05' = '04:05'
time '04:05' < '4:05:00.000001'; time '04:05' = interval '04:05'; interval '1 day' > time '04:05'
time '04:05' BETWEEN '04:00' AND '05:00'; time '04:05' IN ('04:05 am', '05:06'); time '04:05' IS DISTINCT FROM '04:05'
time '24:00' > time '23:59:59.999999'; time '24:00' <> time '00:00'; time '04:05' = ANY ('{04:05,NULL}')
time '04:05'::interval; interval '1 day 26:00'::time; interval '-1 hour'::time; interval '24:00'::time
timestamp '2024-01-01 04:05:06.7'::time; timestamptz '2024-01-01 04:05:06.7+02'::time
timestamp '1969-12-31 23:00'::time; timestamp '2024-01-01 04:05:06.7'::time(0); time '04:05'::text
time '04:05'::varchar(3); time '24:00'::text; '4:05 pm'::text::time; extract(hour from time '04:05:06.789')
extract(minute from time '04:05:06.789'); extract(second from time '04:05:06.789')
extract(milliseconds from time '04:05:06.789'); extract(hour from time '24:00')
extract(microseconds from time '04:05:06.789'); extract(epoch from time '04:05:06.789')
date_part('hour', time '04:05:06.789'); date_part('second', time '04:05:06.789')
date_part('epoch', time '04:05:06.789'); date_trunc('hour', time '04:05:06.789')
to_char(time '16:05:06.789', 'HH24:MI:SS'); to_char(time '16:05:06.789', 'HH:MI:SS.US')
to_char(time '16:05:06.789', 'HH12:MI:SS.MS'); make_time(4, 5, 6.789); make_time(24, 0, 0); make_time(23, 59, 60)
make_time(8, 15, 59.9999999); make_time(NULL, 1, 2); make_time(0, 0, 0); greatest(time '04:05', '05:05')
least(time '04:05', time '03:05'); max(x) FROM (VALUES (time '04:05'), ('05:06')) v(x)
min(x) FROM (VALUES (time '04:05'), ('05:06'), (NULL)) v(x); to_jsonb(time '04:05:06.5')
jsonb_build_object('t', time '04:05'); to_jsonb(ARRAY[time '04:05', NULL])
jsonb_object_agg(x, 1) FROM (VALUES (time '04:05'), ('05:06')) v(x); ARRAY[time '04:05', NULL]
'{04:05,24:00}'::time[]; ARRAY[time '04:05', NULL]::text; ARRAY['04:05']::time[]; ROW(time '04:05', 1)
pg_typeof(time '04:05')::text; pg_typeof(ARRAY[time '04:05'])::text; pg_typeof(localtime)::text; localtime <= '24:00'
localtime = localtimestamp::time; (time '10:00', time '11:00') OVERLAPS (time '10:30', time '12:00')
time '04:05' || 'x'; concat(time '04:05', 'x')
(time '10:00', interval '1 hour') OVERLAPS (time '11:30', interval '1 hour'); nullif(time '04:05', '04:05')
percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (time '04:05'), ('05:06')) v(x)
mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (time '04:05'), ('04:05')) v(x); NULL::time + interval '1 hour'
NULL::time - time '04:05'; count(DISTINCT x) FROM (VALUES (time '04:05'), ('4:05 am')) v(x)
array_agg(x ORDER BY x DESC) FROM (VALUES (time '04:05'), ('05:06')) v(x)
rank() OVER (ORDER BY x) FROM (VALUES (time '04:05'), ('05:06')) v(x)
lag(x) OVER (ORDER BY x) FROM (VALUES (time '04:05')) v(x)
sum(x::interval) FROM (VALUES (time '04:05'), ('05:06')) v(x); format('%s', time '04:05')
array_position(ARRAY[time '04:05'], '04:05'); count(*) OVER (ORDER BY x RANGE '1 hour' PRECEDING) FROM (SELECT * FROM (VALUES (time '00:30'), ('01:30'), ('23:59')) s (x) ORDER BY x) v
x - interval '1 hour' FROM (VALUES (time '04:05'), ('00:30')) v(x)
x::time FROM (VALUES ('04:05:06.5'::text), (NULL)) v(x)
x::time FROM (SELECT * FROM (VALUES (1, '04:05'), (2, '040506'), (3, '0405'), (4, '4:5:6.7 pm'), (5, '12:30 AM'), (6, '24:00')) s (n, x) ORDER BY n) v
x::time FROM (SELECT * FROM (VALUES (1, ' T04:05:06.1234567'), (2, '2024-01-01 23:59:60'), (3, '04:05:06-08'), (4, '04:05z'), (5, '040506.5 PM')) s (n, x) ORDER BY n) v
x::time(1) FROM (VALUES ('04:05:06.55'::text), ('23:59:59.96')) v(x)
x::interval FROM (VALUES (time '04:05'), (NULL)) v(x)
"""  # noqa: E501

EXPRESSIONS = {
    name: [each.strip() for line in _in_full(text).strip().splitlines() for each in line.split("; ") if each.strip()]
    for name, text in {"uuids": UUIDS, "times": TIMES}.items()
}

DECLARED = """
u uuid, us uuid[], un uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', t time, t3 time(3), ts time[],
ts2 time(2)[], tn time NOT NULL DEFAULT '24:00', g interval GENERATED ALWAYS AS (t - tn) STORED
"""

COPIED = "id, u, us, un, t, t3, ts, ts2, tn"

ROWS = list(
    map(
        _in_full,
        (
            """'<a>', '{<a>,NULL}', DEFAULT, '04:05:06.789', '04:05:06.7895', '{04:05,NULL}',
    '{04:05:06.789}', DEFAULT""",
            """'{A0EEBC999C0B4EF8BB6D6BB9BD380A12}', '{}', 'ffffffffffffffffffffffffffffffff', '11:59 PM',
    '23:59:59.9995', '{}', '{}', '00:00'""",
            """NULL, NULL, '00000000-0000-0000-0000-000000000001', NULL, NULL, NULL, NULL, '240000'""",
        ),
    )
)

QUERIES = _in_full("""
SELECT * FROM {t} ORDER BY id;
SELECT id, u::text, us[1], u = un, u > un, un::text || 'x', to_jsonb(us), coalesce(u, un), us::text FROM {t}
    ORDER BY un;
SELECT id FROM {t} WHERE u = '<A>';
SELECT un, count(u) FROM {t} GROUP BY un ORDER BY un DESC;
SELECT a.id, b.id FROM {t} a LEFT JOIN {t} b ON a.u = b.un ORDER BY 1;
SELECT id, t::text, t3::text, ts::text, t = t3, t < tn, t + interval '1 hour', t - t3, tn - t, date '2024-01-31' + t,
    t::interval, extract(second FROM t), to_jsonb(ts), coalesce(t, tn), ts[1], t::time(1), to_char(t, 'HH24:MI')
    FROM {t} ORDER BY tn, id;
SELECT tn, count(t), max(t), min(t3), array_agg(t ORDER BY t DESC) FROM {t} GROUP BY tn ORDER BY tn DESC;
SELECT id FROM {t} WHERE t = '4:05:06.789';
SELECT id FROM {t} WHERE t > '04:00' AND t < '24:00' ORDER BY t DESC;
SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.tn = b.tn AND a.id <> b.id ORDER BY 1;
""")
"""On a table of them, and on a view of it."""

SAME_ERRORS = _in_full("""
SELECT 'x'::uuid
SELECT ' <a>'::uuid
SELECT '{{<a>'::uuid
SELECT 'a0-eebc999c0b4ef8bb6d6bb9bd380a11'::uuid
SELECT id FROM {t} WHERE u = 'x'
SELECT id FROM {t} WHERE u = 'x'::text
SELECT id FROM {t} WHERE u = 1
SELECT id FROM {t} WHERE u IN ('x')
SELECT v::uuid FROM (VALUES ('x'::text)) AS s (v)
SELECT min(u) FROM {t}
SELECT max(u) FROM {t}
SELECT sum(u) FROM {t}
SELECT length(u) FROM {t}
SELECT upper(u) FROM {t}
SELECT u + 1 FROM {t}
SELECT u || u FROM {t}
SELECT u::int FROM {t}
SELECT u::bytea FROM {t}
SELECT 1::uuid
SELECT id::uuid FROM {t}
SELECT '"x"'::jsonb::uuid
SELECT '{{x}}'::uuid[]
SELECT u FROM {t} UNION SELECT 'x'::text
SELECT string_agg(u, ',') FROM {t}
SELECT 'x'::time
SELECT ''::time
SELECT '04'::time
SELECT '4 am'::time
SELECT '-01:00'::time
SELECT '04:05:06,5'::time
SELECT '12345'::time
SELECT '1 day 04:05'::time
SELECT '2024-07-01'::time
SELECT '2024-07-01T04:05:06'::time
SELECT '04:05:06 Europe/Berlin'::time
SELECT '04:05:06 FOO'::time
SELECT '04:05:06+25'::time
SELECT '24:00:01'::time
SELECT '24:00:00.000001'::time
SELECT '25:00'::time
SELECT '23:60'::time
SELECT '23:59:61'::time
SELECT '13:00 PM'::time
SELECT '100:00'::time
SELECT '99:99:99'::time
SELECT v::time FROM (VALUES ('x'::text)) AS s (v)
SELECT v::time FROM (VALUES ('12345'::text)) AS s (v)
SELECT v::time FROM (VALUES ('25:00'::text)) AS s (v)
SELECT v::time FROM (VALUES ('24:00:01'::text)) AS s (v)
SELECT v::time FROM (VALUES ('13:00 pm'::text)) AS s (v)
SELECT make_time(25, 0, 0)
SELECT make_time(-1, 0, 0)
SELECT make_time(23, 60, 0)
SELECT make_time(24, 0, 1)
SELECT make_time(23, 59, 60.5)
SELECT make_time(8, 15, -1)
SELECT date '2024-01-01'::time
SELECT time '04:05'::timestamp
SELECT time '04:05'::date
SELECT time '04:05'::int
SELECT 5::time
SELECT time '04:05'::jsonb
SELECT '"04:05"'::jsonb::time
SELECT time '04:05' + 1
SELECT time '04:05' - '1 hour'
SELECT time '04:05' = timestamp '2024-01-01 04:05'
SELECT length(time '04:05')
SELECT abs(time '04:05')
SELECT coalesce(time '04:05', 1)
SELECT id FROM {t} WHERE t = 1
SELECT id FROM {t} WHERE t = 'x'
SELECT id FROM {t} WHERE t = u
SELECT extract(foo FROM time '04:05')
INSERT INTO {t} (id, t) VALUES (10, 'x')
INSERT INTO {t} (id, t) VALUES (10, '25:00')
INSERT INTO {t} (id, t) VALUES (10, 1)
INSERT INTO {t} (id, t) SELECT 10, '04:05'::text
INSERT INTO {t} (id, t) SELECT 10, date '2024-01-01'
UPDATE {t} SET t = 5
INSERT INTO {t} (id, u) VALUES (10, 'x')
INSERT INTO {t} (id, u) VALUES (10, 1)
INSERT INTO {t} (id, u) SELECT 10, 'x'::text
INSERT INTO {t} (id, un) VALUES (10, NULL)
UPDATE {t} SET u = 'x'
UPDATE {t} SET u = id::text
""")
"""Errors that have the same SQLSTATE and the same message, but for what types are called."""
