"""The options of CREATE SOURCE, as what is known of the source."""

from __future__ import annotations

import random
import re
import uuid
from typing import Any

from headrace.cdc.mysql.session import MODES
from headrace.cdc.source import MYSQL, SourceState
from headrace.errors import InvalidParameterValue
from headrace.sql import statements as ast

AUTO_SCHEMA = "auto.schema.change"
"""The option of a source: its tables get the columns that it has"""

_SHARED = {
    "connector", "hostname", "port", "username", "database.name", "ssl.mode", "ssl.root.cert", "ssl.cert",
    "ssl.key", "scan.startup.mode", AUTO_SCHEMA,
}  # fmt: skip
_POSTGRES = _SHARED | {"schema.name", "slot.name", "publication.name"}
_MYSQL = _SHARED | {"server.id"}
_STARTUP_MODES = {"earliest": True, "latest": False}
"""Whether the rows that are there are read"""
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def known(options: dict[str, str], names: set[str]) -> None:
    for name in options:
        if name not in names:
            raise InvalidParameterValue(f'option "{name}" is not known', hint=f"these are: {', '.join(sorted(names))}")


def number(name: str, text: str, most: int) -> int:
    if not text.isdigit() or not 0 < int(text) <= most:
        raise InvalidParameterValue(f"option \"{name}\" cannot be '{text}'", hint=f"it is a number from 1 to {most}")
    return int(text)


def boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidParameterValue(f"option \"{name}\" cannot be '{text}'", hint="it is 'true' or 'false'")
    return text.lower() == "true"


def startup_mode(text: str) -> bool:
    """Whether the rows that are there are read."""
    if text not in _STARTUP_MODES:
        raise InvalidParameterValue(
            f"scan.startup.mode cannot be '{text}'", hint=f"it is one of {', '.join(_STARTUP_MODES)}"
        )
    return _STARTUP_MODES[text]


def source_options(statement: ast.CreateSource) -> SourceState:
    options, hidden = dict(statement.options), dict(statement.secrets)
    mysql = options["connector"] == MYSQL
    if "password" in options:
        raise InvalidParameterValue(
            "a password must be a secret", hint="CREATE SECRET name AS '…', then password = SECRET name"
        )
    known(options, _MYSQL if mysql else _POSTGRES)
    known(hidden, {"password"})
    for name in ("hostname", "username", "database.name"):
        if not options.get(name):
            raise InvalidParameterValue(f'option "{name}" is missing')
    modes = MODES if mysql else _SSL_MODES
    mode = options.get("ssl.mode", "preferred" if mysql else "prefer")
    if mode not in modes:
        raise InvalidParameterValue(f"ssl.mode cannot be '{mode}'", hint=f"it is one of {', '.join(modes)}")
    if mysql and "ssl.root.cert" in options and not mode.startswith("verify"):
        raise InvalidParameterValue(
            f"ssl.root.cert is of no use with ssl.mode = '{mode}', which verifies nothing",
            hint="ssl.mode = 'verify_ca' or 'verify_identity'",
        )
    if ("ssl.cert" in options) != ("ssl.key" in options):
        raise InvalidParameterValue("ssl.cert and ssl.key belong together", hint="give both, or none")
    startup_mode(options.get("scan.startup.mode", "earliest"))
    boolean(AUTO_SCHEMA, options.get(AUTO_SCHEMA, "false"))
    return SourceState(
        host=options["hostname"],
        port=number("port", options.get("port", "3306" if mysql else "5432"), 65535),
        user=options["username"],
        database=options["database.name"],
        secret=hidden.get("password"),
        sslmode=mode,
        sslrootcert=options.get("ssl.root.cert"),
        sslcert=options.get("ssl.cert"),
        sslkey=options.get("ssl.key"),
        connector=options["connector"],
        **(_mysql(options) if mysql else _postgres(options, statement.name)),
    )


def _postgres(options: dict[str, str], source: str) -> dict[str, Any]:
    plain = re.sub(r"[^a-z0-9_]", "_", source.lower())[:40]
    slot = options.get("slot.name") or f"headrace_{plain}_{uuid.uuid4().hex[:8]}"
    if not re.fullmatch(r"[a-z0-9_]{1,63}", slot):
        raise InvalidParameterValue("a slot.name has lower case letters, digits and underscores, at most 63")
    return {"slot": slot, "publication": options.get("publication.name") or slot, "owned": True}


def _mysql(options: dict[str, str]) -> dict[str, Any]:
    # Two replicas with the same number throw each other out; the small ones are what people choose.
    chosen = str(random.randrange(1 << 24, 1 << 32))
    return {"server_id": number("server.id", options.get("server.id", chosen), (1 << 32) - 1)}
