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

EXPRESSIONS = {
    name: [each.strip() for line in _in_full(text).strip().splitlines() for each in line.split("; ") if each.strip()]
    for name, text in {"uuids": UUIDS}.items()
}

DECLARED = "u uuid, us uuid[], un uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'"

ROWS = list(
    map(
        _in_full,
        (
            """'<a>', '{<a>,NULL}', DEFAULT""",
            """'{A0EEBC999C0B4EF8BB6D6BB9BD380A12}', '{}', 'ffffffffffffffffffffffffffffffff'""",
            """NULL, NULL, '00000000-0000-0000-0000-000000000001'""",
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
INSERT INTO {t} (id, u) VALUES (10, 'x')
INSERT INTO {t} (id, u) VALUES (10, 1)
INSERT INTO {t} (id, u) SELECT 10, 'x'::text
INSERT INTO {t} (id, un) VALUES (10, NULL)
UPDATE {t} SET u = 'x'
UPDATE {t} SET u = id::text
""")
"""Errors that have the same SQLSTATE and the same message, but for what types are called."""
