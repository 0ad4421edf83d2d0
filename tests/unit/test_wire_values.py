"""Values on the wire: binary format, parameters, COPY, and the password exchange."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import uuid
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog import Catalog, Column, Relation
from headrace.errors import DataError, SqlSyntaxError
from headrace.intervals import Interval
from headrace.serving.render import render
from headrace.serving.server import parameters
from headrace.serving.server.spool import Spool
from headrace.serving.wire import copy_binary, copy_format
from headrace.serving.wire.binary import decode, encoder
from headrace.serving.wire.copy_format import CopyOptions, lines_of, read_columns, read_pieces
from headrace.serving.wire.oids import oid_of, size_of
from headrace.serving.wire.rows import data_rows, spread
from headrace.serving.wire.scram import AuthenticationFailed, Exchange, Verifier
from headrace.sql.dialect import parse_expression
from headrace.sql.literals import constant
from headrace.types import SqlType, array_of, map_of

INTEGER, TEXT, NUMERIC = SqlType("integer"), SqlType("varchar"), SqlType("numeric")
VALUES = {
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double precision": st.floats(allow_nan=False),
    "varchar": st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))),
    "bytea": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "interval": st.builds(
        Interval, st.integers(-9999, 9999), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**62), 2**62)
    ),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**27), max_value=10**27),
}


@pytest.mark.parametrize("name", VALUES)
def test_binary_and_text_say_the_same(name):
    kind = SqlType(name)

    @given(VALUES[name])
    def check(value):
        assert decode(encoder(kind)(value), kind) == render(value, kind)

    check()


@given(st.lists(st.none() | VALUES["varchar"], max_size=5))
def test_arrays(values):
    kind = array_of(TEXT)
    assert decode(encoder(kind)(values), kind) == render(values, kind)


@given(st.sampled_from([*VALUES, "jsonb", "array"]), st.binary(max_size=40))
def test_binary_garbage_is_a_data_error(name, data):
    kind = array_of(INTEGER) if name == "array" else SqlType(name)
    try:
        decode(data, kind)
    except Exception as error:
        assert type(error).__name__ in ("DataError", "Unsupported")


def test_a_binary_numeric_keeps_its_zeros():
    kind = SqlType("numeric", precision=10, scale=2)
    assert decode(encoder(kind)(Decimal("1.50")), NUMERIC) == "1.50"
    assert decode(encoder(array_of(kind))([Decimal("-2.00"), None]), array_of(NUMERIC)) == "{-2.00,NULL}"
    assert decode(struct.pack("!hhHhh", 1, 0, 0, 60, 7), NUMERIC) == "7", "more digits than a numeric can have"


def test_numeric_keeps_the_decimals_of_its_type():
    assert encoder(SqlType("numeric", precision=10, scale=4))(Decimal("123.4500"))[6:8] == b"\0\4"


def test_rows():
    data = data_rows([[1, None], ["a", "é"]], [INTEGER, TEXT], [1, 0])
    assert data == (b"D\0\0\0\x13\0\2\0\0\0\4\0\0\0\1\0\0\0\1a" + b"D\0\0\0\x10\0\2\xff\xff\xff\xff\0\0\0\2\xc3\xa9")
    assert spread([], 2) == [0, 0] and spread([1], 3) == [1, 1, 1]


# --- parameters -----------------------------------------------------------------------------------------------------

TABLE = Relation(
    id=1,
    name="t",
    kind="table",
    columns=(
        Column(name="id", type=INTEGER),
        Column(name="name", type=TEXT),
        Column(name="price", type=SqlType("numeric", precision=10, scale=2)),
        Column(name="day", type=SqlType("date")),
    ),
)
CATALOG = Catalog().add(TABLE)


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT * FROM t WHERE id = $1", ["integer"]),
        ("SELECT * FROM t WHERE $1 < day AND name LIKE $2", ["date", "varchar"]),
        ("SELECT * FROM t WHERE id IN ($1, $2) LIMIT $3", ["integer", "integer", "bigint"]),
        ("SELECT * FROM t x WHERE x.price BETWEEN $1 AND $2", ["numeric(10,2)", "numeric(10,2)"]),
        ("SELECT * FROM t WHERE id = ANY($1)", ["integer[]"]),
        ("SELECT $1::date, $2", ["date", "varchar"]),
        ("SELECT * FROM t WHERE id = any($1::oid[])", ["bigint[]"]),
        ("INSERT INTO t VALUES ($1, $2, $3, $4)", ["integer", "varchar", "numeric(10,2)", "date"]),
        ("INSERT INTO t (day, id) VALUES ($1, $2)", ["date", "integer"]),
        ("UPDATE t SET name = $1 WHERE id = $2", ["varchar", "integer"]),
        ("DELETE FROM t WHERE id > $1", ["integer"]),
    ],
)
def test_types_of_parameters(sql, types):
    (statement,) = parameters.parse_with_names(sql)
    found = parameters.parameter_types(statement, len(types), (), CATALOG)
    assert [str(kind) for kind in found] == types


def test_errors_point_into_the_text_that_was_sent():
    sent = "SELECT '$1', $1, $2 /* $1 */, nothing, $1, there"
    made = parameters.with_constants(sent, ["'a long constant'", "1"])
    assert made.text == "SELECT '$1', 'a long constant', 1 /* $1 */, nothing, 'a long constant', there"
    for word in ("SELECT", "'$1'", "nothing", "there"):
        assert made.original(made.text.index(word) + 1) == sent.index(word) + 1
    assert made.original(made.text.index("long") + 1) == sent.index(" $1") + 2
    assert made.original(len(made.text) + 1) == len(sent) + 1
    with pytest.raises(SqlSyntaxError) as caught:
        parameters.with_constants("SELECT $1 FORM t", ["'a long constant'"]).parse()
    assert caught.value.position == 16


@pytest.mark.parametrize(
    ("data", "kind", "sql"),
    [
        (None, INTEGER, "NULL"),
        (b"5", INTEGER, "5"),
        (b"-5", INTEGER, "(-5)"),
        (b"5; DROP TABLE t", INTEGER, "CAST('5; DROP TABLE t' AS integer)"),
        (b"it's", TEXT, "'it''s'"),
        (b"\\' OR 1=1 --", TEXT, "'\\'' OR 1=1 --'"),
        (b"2026-01-02", SqlType("date"), "CAST('2026-01-02' AS date)"),
    ],
)
def test_values_become_constants_and_nothing_else(data, kind, sql):
    assert parameters.constant(data, 0, kind, 0) == sql


def test_a_zero_byte_or_bad_utf8_is_refused():
    for data in (b"a\0b", b"\xff"):
        with pytest.raises(DataError):
            parameters.constant(data, 0, TEXT, 0)


# --- COPY -------------------------------------------------------------------------------------------------------------

CELL = st.none() | st.text(st.characters(blacklist_characters="\0\r", blacklist_categories=("Cs",)))
CELLS = st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=5)


@given(CELLS, st.booleans())
def test_what_copy_writes_it_reads(rows, csv):
    options = CopyOptions.of((("format", "csv"),) if csv else ())
    columns = [list(column) for column in zip(*rows, strict=True)]
    assert read_columns(b"".join(lines_of(columns, options)), 2, options) == columns


def test_copy_says_which_line_is_wrong():
    with pytest.raises(DataError, match="line 2"):
        read_columns(b"1\t2\n3\n", 2, CopyOptions())


# --- passwords --------------------------------------------------------------------------------------------------------


def log_in(verifier: Verifier, password: str) -> None:
    """A client's side, as RFC 5802 has it."""
    exchange = Exchange(verifier)
    challenge = exchange.first(b"n,,n=root,r=abc").decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"n=root,r=abc,{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    answer = exchange.final(f"{without_proof},p={proof}".encode())
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert answer == b"v=" + base64.b64encode(hmac.digest(server_key, signed, "sha256"))


def test_the_right_password():
    log_in(Verifier.of("secret"), "secret")


def test_a_wrong_password():
    with pytest.raises(AuthenticationFailed):
        log_in(Verifier.of("secret"), "Secret")


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_instead_of_a_password(first, final):
    exchange = Exchange(_VERIFIER)
    with pytest.raises(AuthenticationFailed):
        exchange.first(first)
        exchange.final(final)


def test_a_password_is_prepared_as_clients_do():
    log_in(Verifier.of("\u2168\u00ad"), "IX")


def test_a_name_that_nobody_has_looks_like_any_other():
    known, nobody = Verifier.of("secret"), Verifier.of("secret").of_nobody
    assert nobody("eve").salt == nobody("eve").salt != nobody("mallory").salt
    assert len(nobody("eve").salt) == len(known.salt)
    with pytest.raises(AuthenticationFailed):
        log_in(nobody("eve"), "secret")


_VERIFIER = Verifier.of("secret")


def test_dates_before_2000():
    assert decode(encoder(SqlType("date"))(date(1999, 12, 31)), SqlType("date")) == "1999-12-31"
    early = datetime(1969, 7, 20, 20, 17, 40, 123456)
    assert decode(encoder(SqlType("timestamp"))(early), SqlType("timestamp")) == "1969-07-20 20:17:40.123456"


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda name: st.tuples(st.just(name), VALUES[name])), st.booleans())
def test_a_value_is_the_same_in_the_text_and_in_the_tree(named, binary):
    """What a prepared INSERT is filled with, against what its text would say."""
    name, value = named
    kind = SqlType(name)
    data = encoder(kind)(value) if binary else render(value, kind).encode()
    arguments = (data, int(binary), kind, 0)
    written = parse_expression(parameters.constant(*arguments))
    for column in (kind, SqlType("varchar"), SqlType("bigint"), SqlType("double precision")):
        found = [constant(tree, column) for tree in (written, parameters.constant_tree(*arguments))]
        assert repr(found[0]) == repr(found[1])


CSV = CopyOptions.of((("format", "csv"),))


@given(
    st.lists(
        st.tuples(st.text('ab"\n\\,\t\r', max_size=6), st.none() | st.text('x\n"', max_size=4)), min_size=1, max_size=30
    ),
    st.sampled_from([(), (("format", "csv"),), (("format", "csv"), ("escape", "\\"))]),
    st.sampled_from([b"", b"\\.\n", b"\\.\r\n", b"\\."]),
    st.integers(1, 40),
    st.booleans(),
)
def test_copied_rows_are_the_same_however_they_are_cut(rows, options, end, piece_bytes, on_disk):
    options = CopyOptions.of((*options, ("header", "true")) if options else ())
    data = b"".join(lines_of(list(zip(*rows, strict=True)), options))
    data = (b"a,b\n" if options.csv else b"") + data + end
    with Spool() as spool:
        spool.write(data)
        if on_disk:
            spool._flush()
        assert spool.content()[:] == data
        pieces = list(read_pieces(spool.content(), 2, options, piece_bytes))
    together = [sum((piece[at] for piece in pieces), []) for at in range(2)]
    assert together == [list(column) for column in zip(*rows, strict=True)]


def test_escaped_bytes_are_put_together():
    assert read_columns(b"caf\\303\\251\\x41\n", 1, CopyOptions()) == [["caf\u00e9A"]]
    for wrong in (b"\\303\n", b"\\0\n"):
        with pytest.raises(DataError, match="invalid byte sequence"):
            read_columns(wrong, 1, CopyOptions())


def test_lines_of_csv_are_counted_over_all_pieces():
    options = CopyOptions.of((("format", "csv"), ("header", "true")))
    with pytest.raises(DataError, match="missing data, line 4"):
        list(read_pieces(b'a,b\n1,"x"y\n2,2\n3\n', 2, options, piece_bytes=1))


def test_lines_are_counted_over_all_pieces():
    with pytest.raises(DataError, match="missing data, line 3"):
        list(read_pieces(b"1\t2\n3\t4\n5\n", 2, CopyOptions(), 4))
    assert list(read_pieces(b"1\t2\n\\.\nmore\n", 2, CopyOptions(), 4)) == [[["1"], ["2"]]]


@pytest.mark.parametrize(("data", "last"), [(b"1,2\n3,x\\.", "x\\."), (b'1,2\n3,"a\n\\.\n"\n', "a\n\\.\n")])
def test_a_mark_that_is_not_the_end_of_csv(data, last):
    assert list(read_pieces(data, 2, CSV)) == [[["1", "3"], ["2", last]]]
    with pytest.raises(DataError, match="missing data, line 2"):
        list(read_pieces(b"1,2\n\\.\n3,4\n", 2, CSV))


def test_lines_are_bounded(monkeypatch):
    monkeypatch.setattr(copy_format, "LONGEST_LINE", 50)
    lines = b"1,2\n" * 10
    assert len(list(read_pieces(lines, 2, CSV, 10))) == 4
    for long in (b"1," + b"x" * 70 + b"\n", b'1,"x\n' + lines * 10):
        with pytest.raises(DataError, match="at most 50 bytes") as caught:
            list(read_pieces(lines + long + lines, 2, CSV, 10))
        assert caught.value.sqlstate == "54000"


def test_an_empty_array_may_have_a_dimension():
    assert decode(struct.pack("!iiIii", 1, 0, 23, 0, 1), array_of(INTEGER)) == "{}"


def test_binary_rows_may_end_without_a_mark():
    """Not in the middle of one."""
    rows = copy_binary.HEADER + b"".join(copy_binary.tuples_of([[7, None]], [INTEGER]))
    assert list(copy_binary.pieces_of(rows, [INTEGER])) == [[["7", None]]]
    assert list(copy_binary.pieces_of(copy_binary.HEADER, [INTEGER])) == []
    for missing in (1, 5):
        with pytest.raises(DataError, match="unexpected EOF"):
            list(copy_binary.pieces_of(rows[:-missing], [INTEGER]))


@pytest.mark.parametrize(
    ("data", "rows"),
    [  # as PostgreSQL 15 reads them
        (b'a" ba",z\nq,\n', [("a ba", "z"), ("q", None)]),
        (b'b""NULL,"z\r\n"\r\n', [("bNULL", "z\r\n")]),
        (b'"",', [("", None)]),
        (b'\\b",",z\n', [("\\b,", "z")]),
        (b'"a""b","c\n""\nd"\n', [('a"b', 'c\n"\nd')]),
    ],
)
def test_copy_reads_quotes_as_postgresql_does(data, rows):
    assert [row for piece in read_pieces(data, 2, CSV) for row in zip(*piece, strict=True)] == rows


@pytest.mark.parametrize(
    ("data", "options", "problem"),
    [
        (b'1,"x\n2,y\n3,z\n', CSV, "unterminated CSV quoted field"),  # or the rest of the file becomes one value
        (b"1,x\n\n2,y\n", CSV, "missing data"),
        (b"1,x,y\n", CSV, "extra data"),
        (b"a\\.b\tc\n", CopyOptions(), "end-of-copy marker corrupt"),
    ],
)
def test_copy_refuses_what_postgresql_refuses(data, options, problem):
    with pytest.raises(DataError, match=problem) as caught:
        list(read_pieces(data, 2, options))
    assert caught.value.sqlstate == "22P04"


def test_copy_with_a_header_that_must_match():
    for form in ("csv", "text"):
        options = CopyOptions.of((("format", form), ("header", "match")))
        line = b'id,"n"\n1,2\n' if form == "csv" else b"id\tn\n1\t2\n"
        assert list(read_pieces(line, 2, options, names=("id", "n"))) == [[["1"], ["2"]]]
        with pytest.raises(DataError, match='field 2: got "n", expected "m"'):
            list(read_pieces(line, 2, options, names=("id", "m")))
        with pytest.raises(DataError, match="field count is 2, expected 3"):
            list(read_pieces(line, 3, options, names=("id", "n", "m")))


def test_copy_of_a_newline_that_is_escaped():
    assert list(read_pieces(b"a\\\nb\tc\nd\te\n", 2, CopyOptions(), 1)) == [[["a\nb"], ["c"]], [["d"], ["e"]]]


def test_binary_uuids():
    """Drivers send them so; PostgreSQL has no other binary form of them."""
    given = uuid.UUID("0b9a2f5e-7d3c-4c1f-8a55-ffeeddccbbaa")
    kind = SqlType("uuid")
    assert parameters.parameter_types(None, 2, [2950, 2951], Catalog({})) == [kind, array_of(kind)]
    assert parameters.constant(given.bytes, 1, kind, 2950) == f"CAST('{given}' AS uuid)"
    assert parameters.constant(str(given).encode(), 0, kind, 2950) == f"CAST('{given}' AS uuid)"
    array = encoder(array_of(kind))([str(given), None])
    assert array == struct.pack("!iiiiii", 1, 1, 2950, 2, 1, 16) + given.bytes + b"\xff\xff\xff\xff"
    assert parameters.constant(array, 1, array_of(kind), 2951) == f"CAST('{{{given},NULL}}' AS uuid[])"
    assert (encoder(kind)(str(given)), oid_of(kind), size_of(kind)) == (given.bytes, 2950, 16)
    with pytest.raises(DataError) as caught:
        parameters.constant(b"too short", 1, kind, 2950)
    assert caught.value.sqlstate == "22P03"


def test_a_binary_value_of_an_unknown_type_is_not_taken_for_text():
    with pytest.raises(DataError) as caught:
        parameters.constant(b"10.0", 1, TEXT, 869)  # inet
    assert caught.value.sqlstate == "42P18"


def test_a_type_does_not_count_dimensions():
    assert decode(encoder(array_of(INTEGER))([[1, 2], [3, None]]), array_of(INTEGER)) == "{{1,2},{3,NULL}}"


def test_maps_are_told_as_text():
    kind = map_of(TEXT, INTEGER)
    within = SqlType("struct", fields=(("m", kind),))
    assert (oid_of(kind), oid_of(array_of(kind)), oid_of(within)) == (25, 1009, 2249)
    assert encoder(kind)([("a", 1)]) == b"{a:1}"
    assert decode(encoder(array_of(kind))([[("a", 1)], None]), array_of(TEXT)) == '{"{a:1}",NULL}'
    assert encoder(within)({"m": [("a", 1)]}) == struct.pack("!iIi", 1, 25, 5) + b"{a:1}"
