"""The log of pieces, and what is known of files, against plain lists and dictionaries."""

from __future__ import annotations

import bisect
import itertools
import random
import sys

import pytest

from headrace.sources import pieces
from headrace.sources.listing import Piece
from headrace.sources.pieces import KnownFiles, PieceLog
from tests.sources.test_files import Segments


def piece(number: int, rows: int) -> Piece:
    return Piece(path=f"f{number}", start=0, end=rows, size=rows, mtime=number / 7, rows=rows, begins_with="ab")


@pytest.mark.parametrize("seed", range(30))
def test_a_log_is_a_list(seed, monkeypatch):
    """Whatever is kept of it, and whenever segments become one."""
    monkeypatch.setattr(pieces, "KEPT_PIECES", 5)
    rng = random.Random(seed)
    segments, plain = Segments(), []
    log = PieceLog(segments)
    for _ in range(40):
        match rng.randrange(3):
            case 0:
                added = [piece(len(plain) + at, rng.choice((0, 1, 5))) for at in range(rng.randrange(1, 5))]
                log.append(added)
                plain += added
            case 1:
                segments.join()
                if rng.random() < 0.5:
                    log = PieceLog(segments)  # as after a restart
        assert len(log) == len(plain)
        sums = [0, *itertools.accumulate(each.rows for each in plain)]
        if plain:
            at = rng.randrange(len(plain))
            assert log[at] == plain[at]
        start = rng.randrange(len(plain) + 1)
        end, rows = rng.randrange(start, len(plain) + 1), rng.randrange(12)
        assert log.rows_before(start) == sums[start]
        fits = bisect.bisect_right(sums, sums[start] + rows) - 1
        assert log.last_within(rows, start, end) == min(fits, end)
        assert sum(len(held) for held, _ in log._kept.values()) <= 5 or len(log._kept) == 1
    assert list(log) == plain


@pytest.mark.parametrize("seed", range(10))
def test_known_files_are_a_dictionary(seed, monkeypatch):
    monkeypatch.setattr(pieces, "RECENT", 7)
    rng = random.Random(seed)
    known, plain = KnownFiles(), {}
    for _ in range(60):
        paths = rng.sample([f"p{number}" for number in range(60)], rng.randrange(1, 9))
        if rng.random() < 0.5:
            found = [(rng.randrange(1 << 40), rng.randrange(-(1 << 62), 1 << 62)) for _ in paths]
            known.put(paths, numbers=[number for number, _ in found], marks=[mark for _, mark in found])
            plain |= dict(zip(paths, found, strict=True))
        numbers, marks = known.find(paths)
        assert list(zip(numbers.tolist(), marks.tolist(), strict=True)) == [plain.get(path, (-1, 0)) for path in paths]


def test_what_is_held_of_a_file_is_little():
    known, files = KnownFiles(), 200_000
    for first in range(0, files, 1000):
        numbers = range(first, first + 1000)
        known.put([f"day=2026-11-16/part-{number:08}.parquet" for number in numbers], numbers=numbers, marks=numbers)
    held = sum(each.nbytes for each in (known._paths, known._numbers, known._marks))
    assert held <= 32 * files and len(known._recent) < pieces.RECENT
    assert sys.getsizeof(known._recent) < 8 << 20
