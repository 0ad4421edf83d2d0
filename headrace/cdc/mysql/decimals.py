"""Decimals as MySQL and MariaDB store them: groups of nine digits in four bytes, the most significant first.

>>> decimal_text(4, 2, bytes([0x8C, 0x22])), decimal_text(4, 2, bytes([0x73, 0xDD]))
('12.34', '-12.34')
"""

from __future__ import annotations

from collections.abc import Callable

_PART_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Of a group of so many digits"""


def decimal_width(precision: int, scale: int) -> int:
    whole = precision - scale
    return whole // 9 * 4 + _PART_BYTES[whole % 9] + scale // 9 * 4 + _PART_BYTES[scale % 9]


def decimal_text(precision: int, scale: int, data: bytes) -> str:
    return decimal_reader(precision, scale)(data, 0)[0]


def decimal_reader(precision: int, scale: int) -> Callable[[bytes, int], tuple[str, int]]:
    """From bytes and a place in them to the value's text, and where it ends."""
    whole = precision - scale
    groups = [whole % 9] * (whole % 9 > 0) + [9] * (whole // 9)
    before = len(groups)
    groups += [9] * (scale // 9) + [scale % 9] * (scale % 9 > 0)
    size = decimal_width(precision, scale)

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = bytearray(data[at : at + size])
        negative = not value[0] & 0x80
        value[0] ^= 0x80
        if negative:
            value = bytearray(byte ^ 0xFF for byte in value)
        place, parts = 0, []
        for digits in groups:
            end = place + _PART_BYTES[digits]
            parts.append(f"{int.from_bytes(value[place:end], 'big'):0{digits}d}")
            place = end
        text = "".join(parts[:before]).lstrip("0") or "0"
        if scale:
            text += "." + "".join(parts[before:])
        return ("-" + text if negative else text), at + size

    return read
