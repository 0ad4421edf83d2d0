"""Statements, one at a time."""

from __future__ import annotations

from headrace.sql import statements as s
from headrace.sql.parse import parse


def one(text: str) -> s.Statement:
    (statement,) = parse(text)
    return statement
