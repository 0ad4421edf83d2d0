"""UUIDs: text in PostgreSQL's one form, 32 lower-case hexadecimal digits in five groups.

That text is what is stored. Its bytes sort as PostgreSQL sorts UUIDs, so keys, joins and sorting need to know nothing
of the type. All that can be written differently has become that text before it is stored or compared.

>>> canonical("{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}")
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'
>>> canonical("a0-eebc999c0b4ef8bb6d6bb9bd380a11") is None
True
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError

_DIGITS = r"[0-9a-fA-F]{4}(?:-?[0-9a-fA-F]{4}){7}"
SPELLINGS = rf"{_DIGITS}|\{{{_DIGITS}\}}"
"""All that PostgreSQL takes: a hyphen may stand behind each four digits, and braces around all of it."""
_SPELLINGS = re.compile(SPELLINGS)
PLAIN = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def canonical(text: str) -> str | None:
    """As PostgreSQL prints it; None if it is none."""
    if _SPELLINGS.fullmatch(text) is None:
        return None
    digits = text.strip("{}").replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_uuid(text: str) -> str:
    if (found := canonical(text)) is None:
        raise DataError(f'invalid input syntax for type uuid: "{text}"', sqlstate="22P02")
    return found


def from_python(value: Any) -> str:
    """A value of Python's, or of Arrow's, as it is stored."""
    return str(UUID(bytes=value) if isinstance(value, bytes) else value) if _is_exact(value) else parse_uuid(str(value))


def _is_exact(value: Any) -> bool:
    return isinstance(value, UUID) or (isinstance(value, bytes) and len(value) == 16)


def from_arrow(values: pa.Array) -> pa.Array:
    """Arrow's UUIDs, 16 bytes or texts as what is stored; anything else as it is."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid":
        values, kind = values.storage, values.storage.type
    if pa.types.is_dictionary(kind):
        values, kind = values.dictionary_decode(), kind.value_type
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return pa.array([None if each is None else from_python(each) for each in values.to_pylist()], pa.string())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return values
    texts = values.cast(pa.string())
    if pc.all(pc.match_substring_regex(texts, PLAIN)).as_py() is not False:  # None: there is none
        return texts
    return pa.array([None if each is None else parse_uuid(each) for each in texts.to_pylist()], pa.string())
