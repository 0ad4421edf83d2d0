"""Results as the server sends them: whatever is in them, wherever they are cut, values come out as they went in."""

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.cdc.mysql import results
from headrace.cdc.mysql.results import LARGEST_PACKET, Packets, read_packets

END = b"\xfe\x00\x00\x02\x00"


def prefixed(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little") + value
    return (b"\xfd" + size.to_bytes(3, "little") if size < 1 << 24 else b"\xfe" + size.to_bytes(8, "little")) + value


def packet(data: bytes) -> bytes:
    sent = b""
    while True:
        part, data = data[:LARGEST_PACKET], data[LARGEST_PACKET:]
        sent += len(part).to_bytes(3, "little") + b"\x07" + part
        if len(part) < LARGEST_PACKET:
            return sent


def sent(rows, end: bytes = END) -> bytes:
    return b"".join(packet(b"".join(map(prefixed, row))) for row in rows) + packet(end)


def reader(data: bytes, sizes):
    """What a socket answers: whatever has arrived."""
    at = 0

    def some_bytes(most: int) -> bytes:
        nonlocal at
        size = min(most, sizes())
        at += size
        return data[at - size : at]

    return some_bytes


def refuse(data: bytes) -> None:
    raise RuntimeError(data)


def read(data: bytes, sizes=lambda: 1 << 30, **options) -> list[Packets]:
    return list(read_packets(reader(data, sizes), refuse, **options))


def rows_of(batches, count: int) -> list[tuple]:
    """Both ways, which must agree."""
    found = []
    for batch in batches:
        one_by_one = batch.values(count)
        assert [column.to_pylist() for column in batch.columns(count)] == one_by_one
        found.extend(zip(*one_by_one, strict=True))
    return found


VALUES = {
    "short": lambda chosen: chosen.randbytes(chosen.randint(1, 20)).translate(bytes.maketrans(b"\n\r\x1f", b"xyz")),
    "any": lambda chosen: chosen.randbytes(chosen.randint(0, 20)),
    "null": lambda chosen: None if chosen.random() < 0.3 else b"%d" % chosen.randint(0, 10**9),
    "empty": lambda chosen: chosen.choice([b"", b"text", b" ", b"\x00"]),
    "null or empty": lambda chosen: chosen.choice([None, b"", b"text"]),
    "lines": lambda chosen: chosen.choice([b"one\ntwo", b"one\r\ntwo", b"three\x1ffour", b'"quoted, "" so', b"\\"]),
    "ends": lambda chosen: chosen.choice([b"one", b"two\n", b"\n", b"three\r"]),
    "long": lambda chosen: b"x" * chosen.choice([1, 250, 251, 252, 70_000]),
}


@pytest.mark.parametrize("seed", range(60))
def test_values_come_as_they_were_sent(seed):
    chosen = random.Random(seed)
    kinds = chosen.choices(list(VALUES), k=chosen.randint(1, 6))
    rows = [tuple(VALUES[kind](chosen) for kind in kinds) for _ in range(chosen.choice([0, 1, 50, 300]))]
    batches = read(sent(rows), lambda: chosen.choice([1, 3, 100, 5000]), batch_rows=chosen.choice([1, 7, 1000]))
    assert rows_of(batches, len(kinds)) == rows


def test_short_values_are_read_by_arrow(monkeypatch):
    monkeypatch.setattr(Packets, "values", None)
    rows = [(b"%d" % number, None if number % 3 else b"x", b"" if number % 2 else b'a "b", c') for number in range(100)]
    (batch,) = read(sent(rows))
    assert list(zip(*(column.to_pylist() for column in batch.columns(3)), strict=True)) == rows


def test_a_line_that_ends_in_the_last_value():
    rows = [(b"1", b"hello"), (b"2", b"bye\n")]
    assert rows_of(read(sent(rows)), 2) == rows
    assert rows_of(read(sent([(b"\n",)])), 1) == [(b"\n",)]


def test_a_row_may_be_longer_than_a_packet(monkeypatch):
    large = bytes(LARGEST_PACKET + 5)
    rows = [(b"1", b"small"), (b"2", large), (b"3", bytes(LARGEST_PACKET - 9)), (b"4", None)]
    assert rows_of(read(sent(rows), lambda: 1 << 17), 2) == rows


def test_batches_are_bounded(monkeypatch):
    monkeypatch.setattr(results, "BATCH_BYTES", 1000)
    batches = read(sent([(b"x" * 99,)] * 100), lambda: 500)
    assert max(len(batch.starts) for batch in batches) <= 15 and sum(len(batch.starts) for batch in batches) == 100


def test_what_the_server_complains_about_is_raised():
    with pytest.raises(RuntimeError, match="interrupted"):
        read(sent([(b"1",)], end=b"\xff\x25\x05#70100interrupted"))


def test_a_connection_that_is_closed():
    with pytest.raises(OSError, match="closed"):
        read(sent([(b"1",)])[:-1])


def test_a_row_that_is_none():
    with pytest.raises(OSError, match="none"):
        read(packet(b"\x05ab") + packet(END))[0].columns(1)


def test_numbers_are_read_as_such_if_all_of_them_are():
    types = {0: pa.int32(), 1: pa.decimal128(6, 2)}
    (batch,) = read(sent([(b"1", b"1.50", b"a"), (b"-2", None, b"b")]))
    columns = batch.columns(3, types)
    assert [column.type for column in columns] == [pa.int32(), pa.decimal128(6, 2), pa.binary()]
    assert [column.to_pylist() for column in columns] == [[1, -2], [Decimal("1.50"), None], [b"a", b"b"]]
    for odd, price in ((b"99999999999", b"2.00"), (b"", Decimal("2.00")), (b"x", b"2.00")):
        (batch,) = read(sent([(b"1", b"2.00", b"a"), (odd, b"2.00", b"b")]))
        assert [column.to_pylist() for column in batch.columns(3, types)] == [[b"1", odd], [price] * 2, [b"a", b"b"]]
