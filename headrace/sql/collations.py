"""COLLATE: PostgreSQL's collations that compare bytes, which is how text compares anyway, and Spark's own.

>>> spark_collation("C") is None, spark_collation("unicode_ci"), spark_collation("de_AI")
(True, 'UNICODE_CI', 'de_AI')
"""

from __future__ import annotations

import re

from headrace.errors import UndefinedCollation

_BYTES = ("C", "POSIX", "ucs_basic", "default", "C.UTF-8", "C.utf8", "pg_catalog.default")
_NAMED = re.compile(r"(UTF8_BINARY|UTF8_LCASE)(_RTRIM)?|UNICODE(_(CS|CI|AS|AI|RTRIM))*", re.IGNORECASE)
_LOCALE = re.compile(r"[a-z]{2,3}(_[A-Z][a-z]{3})?(_[A-Z]{3})?(_(CS|CI|AS|AI|RTRIM))*")


def spark_collation(name: str) -> str | None:
    """Spark's name of a collation; None for one that changes nothing."""
    if name in _BYTES:
        return None
    if _NAMED.fullmatch(name):
        return name.upper()
    if _LOCALE.fullmatch(name):
        return name
    raise UndefinedCollation(
        f'collation "{name}" does not exist',
        hint='there are "C", "POSIX", and those of Spark: "UNICODE", "UNICODE_CI", "UTF8_LCASE", "de", "en_CI", …',
    )
