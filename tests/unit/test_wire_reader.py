"""The protocol reader: what it takes, and that nothing a client sends can hurt it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serving.wire import reader
from headrace.serving.wire.reader import MessageReader, ProtocolViolation


def framed(letter: bytes, body: bytes) -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=20)


def z(text: str) -> bytes:
    return text.encode() + b"\0"


MESSAGES = st.one_of(
    TEXT.map(lambda text: (reader.Query(text), framed(b"Q", z(text)))),
    st.tuples(TEXT, TEXT, st.lists(st.integers(0, 2**32 - 1), max_size=5)).map(
        lambda parts: (
            reader.Parse(parts[0], parts[1], tuple(parts[2])),
            framed(b"P", z(parts[0]) + z(parts[1]) + struct.pack(f"!h{len(parts[2])}I", len(parts[2]), *parts[2])),
        )
    ),
    st.lists(st.none() | st.binary(max_size=9), max_size=4).map(
        lambda values: (
            reader.Bind("p", "s", (1,), tuple(values), (0, 1)),
            framed(
                b"B",
                b"p\0s\0"
                + struct.pack("!hhh", 1, 1, len(values))
                + b"".join(b"\xff" * 4 if v is None else struct.pack("!i", len(v)) + v for v in values)
                + struct.pack("!hhh", 2, 0, 1),
            ),
        )
    ),
    st.just((reader.Sync(), framed(b"S", b""))),
    st.just((reader.Execute("", 7), framed(b"E", b"\0" + struct.pack("!i", 7)))),
    st.binary(max_size=30).map(lambda data: (reader.CopyData(data), framed(b"d", data))),
)


@given(st.lists(MESSAGES, max_size=6), st.integers(1, 17))
def test_messages_are_read_however_they_are_cut(messages, step):
    stream = b"".join(data for _, data in messages)
    reading, found = MessageReader(), []
    for at in range(0, len(stream), step):
        reading.feed(stream[at : at + step])
        while (message := reading.next_message()) is not None:
            found.append(message)
    assert found == [message for message, _ in messages]
    assert reading.waiting == 0


@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_refused_or_waited_for_but_never_believed(data, startup):
    reading = MessageReader(limit=1000)
    reading.feed(data)
    try:
        while (reading.next_startup() if startup else reading.next_message()) is not None:
            pass
    except ProtocolViolation as error:
        assert error.sqlstate in ("08P01", "22021")


@given(st.sampled_from("QPBDCESHXdcfp"), st.binary(max_size=60))
def test_a_well_framed_message_of_garbage(letter, body):
    reading = MessageReader()
    reading.feed(framed(letter.encode(), body))
    try:
        assert reading.next_message() is not None
    except ProtocolViolation:
        pass
    assert reading.waiting == 0  # the next message is where it should be


@pytest.mark.parametrize("length", [-1, 0, 3, reader.MESSAGE_BYTES + 1, 2**31 - 1])
def test_a_length_is_checked_before_anything_is_kept_for_it(length):
    reading = MessageReader()
    reading.feed(b"Q" + struct.pack("!i", length))
    with pytest.raises(ProtocolViolation):
        reading.next_message()


def test_before_it_says_who_it_is_a_client_may_not_send_much():
    reading = MessageReader()
    reading.feed(struct.pack("!i", reader.STARTUP_BYTES + 1))
    with pytest.raises(ProtocolViolation, match="too long"):
        reading.next_startup()


def test_startup():
    reading = MessageReader()
    reading.feed(struct.pack("!ii", 8, reader.TLS))
    assert reading.next_startup() == reader.EncryptionRequest(reader.TLS)
    body = struct.pack("!i", 3 << 16) + b"user\0root\0database\0dev\0\0"
    reading.feed(struct.pack("!i", len(body) + 4) + body)
    assert reading.next_startup() == reader.Startup(0, {"user": "root", "database": "dev"})
    reading.feed(struct.pack("!iiII", 16, reader.CANCEL, 7, 2**32 - 1))
    assert reading.next_startup() == reader.CancelRequest(7, 2**32 - 1)
    reading.feed(struct.pack("!ii", 8, 2 << 16))
    with pytest.raises(ProtocolViolation, match="protocol 2.0"):
        reading.next_startup()


def test_a_statement_may_have_as_many_parameters_as_the_protocol_counts():
    values = b"\xff" * 4 * 65_535
    reading = MessageReader()
    reading.feed(framed(b"B", b"\0\0" + struct.pack("!HH", 0, 65_535) + values + struct.pack("!H", 0)))
    assert len(reading.next_message().values) == 65_535


def test_who_has_to_prove_who_they_are_may_not_send_much():
    reading = MessageReader()
    reading.feed(b"p" + struct.pack("!i", 20_000))
    with pytest.raises(ProtocolViolation, match="too long"):
        reading.next_answer()
