"""What a log's reader hands over, when its connection is lost at the worst moments. No server is needed."""

from __future__ import annotations

from headrace.cdc.changelog import Piece
from headrace.cdc.postgres.server import Address
from headrace.cdc.postgres.stream import LogStream


def stream(position: int = 100, skip: int = 0) -> LogStream:
    address = Address(host="nowhere", port=1, user="u", database="d")
    return LogStream(address, slot="s", publication="p", position=position, skip=skip, on_news=lambda: None)


def piece(commit: int, events: str = "e", *, first: int = 0, final: bool = True) -> Piece:
    position = commit + 5 if final else 0
    return Piece(
        xid=commit, position=position, committed_at=0, commit=commit, events=list(events), first=first, final=final
    )


def arrive(log: LogStream, *pieces: Piece) -> None:
    for each in pieces:
        log._arrived(each, len(each.events))


def test_positions():
    log = stream()
    log._advance(105)
    assert log.position == 105
    arrive(log, piece(110), piece(120))
    log._advance(130)
    assert log.position == 105  # what is behind it has not been taken
    log.take(log.peek(1))
    assert (log.taken, log.position) == (115, 115)
    log.take(log.peek(9))
    assert (log.taken, log.position, log._bytes) == (125, 130, 0)


def test_what_waits_when_the_connection_is_lost_has_not_been_taken():
    log = stream()
    arrive(log, piece(110))
    assert log._begin_anew() == (100, 0)
    assert log.peek(9) == [] and log.position == 100
    arrive(log, piece(110))
    assert len(log.peek(9)) == 1


def test_what_is_applied_while_the_connection_is_lost_is_not_handed_over_again():
    log = stream()
    arrive(log, piece(110), piece(120))
    applied = log.peek(9)
    log._begin_anew()
    arrive(log, piece(110))  # again; the other is still on its way
    log.take(applied)
    assert log.peek(9) == []
    arrive(log, piece(120), piece(130))
    assert [each.commit for each in log.peek(9)] == [130]
    assert log._begin_anew() == (125, 0)


def test_a_part_of_a_transaction_is_not_handed_over_again():
    log = stream()
    arrive(log, piece(110, "abc", final=False), piece(110, "de", first=3))
    (applied,) = log.peek(3)
    log._begin_anew()
    arrive(log, piece(110, "abc", final=False))
    log.take([applied])
    assert log.peek(9) == [] and log.position == 100
    arrive(log, piece(110, "de", first=3))
    (rest,) = log.peek(9)
    assert rest.events == ["d", "e"]
    assert log._begin_anew() == (100, 3)
    arrive(log, piece(110, "abcde"))
    (rest,) = log.peek(9)
    assert (rest.events, rest.first) == (["d", "e"], 3)


def test_an_idle_position_that_was_confirmed_is_where_to_go_on():
    log = stream()
    log._advance(180)
    log.confirm(180)
    assert log._begin_anew() == (180, 0)
