"""How a client begins: encryption, who it is, and the proof."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.serving.server.channel import Channel
from headrace.serving.wire import reader, scram, writer
from headrace.sql.names import DATABASE

PATIENCE = 20.0
"""Seconds that a client may take to say who it is and to prove it."""


class Refused(HeadraceError):
    """The client may not come in."""

    sqlstate = "28000"


class NoSuchDatabase(HeadraceError):
    sqlstate = "3D000"


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may connect, and how."""

    user: str = "root"
    password: scram.Verifier | None = None
    """None: whoever reaches the port is believed"""
    tls: ssl.SSLContext | None = None
    tls_required: bool = False


@dataclass(frozen=True)
class Greeting:
    user: str
    settings: dict[str, str] = field(default_factory=dict)
    """Variables that the client sets as it connects"""


def greet(channel: Channel, access: Access) -> Greeting | reader.CancelRequest:
    deadline = time.monotonic() + PATIENCE
    asked: set[int] = set()
    while True:
        message = channel.startup(deadline)
        if isinstance(message, reader.CancelRequest):
            return message
        if isinstance(message, reader.Startup):
            break
        if message.kind in asked:  # once each, as in PostgreSQL, or a client could go on for ever
            raise reader.ProtocolViolation("the client asks again for an encryption that it was answered about")
        asked.add(message.kind)
        if message.kind == reader.TLS and access.tls is not None and not channel.encrypted:
            channel.send(b"S")
            channel.flush()
            channel.encrypt(access.tls, deadline)
        else:
            channel.send(b"N")
    if access.tls_required and not channel.encrypted:
        raise Refused("the server takes only encrypted connections", hint="connect with sslmode=require")
    parameters = dict(message.parameters)
    unknown = [name for name in parameters if name.startswith("_pq_.")]
    if message.minor > 0 or unknown:
        channel.send(writer.negotiate_version(0, unknown))
    user = parameters.pop("user", "")
    if not user:
        raise Refused("no PostgreSQL user name specified in startup packet")
    database = parameters.pop("database", "") or user
    if parameters.pop("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise Refused("replication connections are not supported")
    _authenticate(channel, access, user, deadline)
    if database != DATABASE:
        raise NoSuchDatabase(f'database "{database}" does not exist', hint=f"the only database is {DATABASE}")
    settings = _options(parameters.pop("options", ""))
    settings |= {name: value for name, value in parameters.items() if not name.startswith("_pq_.")}
    return Greeting(user, settings)


def _authenticate(channel: Channel, access: Access, user: str, deadline: float) -> None:
    known = user == access.user
    if access.password is None:
        if not known:
            raise Refused(f'role "{user}" does not exist', hint=f"the only user is {access.user}")
        channel.send(writer.AUTHENTICATED)
        return
    # A name that is not known is asked for a password all the same, and none is right: nobody learns which names are.
    exchange = scram.Exchange(access.password if known else access.password.of_nobody(user))
    channel.send(writer.ask_sasl(scram.MECHANISM))
    first = _answer(channel, deadline)
    mechanism, _, rest = first.partition(b"\0")
    if mechanism.decode("ascii", "replace") != scram.MECHANISM or len(rest) < 4:
        raise scram.AuthenticationFailed("the client chose an authentication that was not offered")
    channel.send(writer.sasl_continue(exchange.first(rest[4:])))
    try:
        proof = exchange.final(_answer(channel, deadline))
    except scram.AuthenticationFailed as error:
        error.message = error.message.replace("failed", f'failed for user "{user}"')
        raise
    channel.send(writer.sasl_final(proof) + writer.AUTHENTICATED)


def _answer(channel: Channel, deadline: float) -> bytes:
    message = channel.answer(deadline)
    if not isinstance(message, reader.Password):
        raise reader.ProtocolViolation("expected an answer to the request for authentication")
    return message.body


def _options(text: str) -> dict[str, str]:
    """PGOPTIONS: -c name=value, --name=value

    >>> _options("-c background_ddl=true --application-name=my-app-1")
    {'background_ddl': 'true', 'application_name': 'my-app-1'}
    """
    found = {}
    words = text.replace("\\ ", "\0").split()
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word = words.pop(0)
        elif word.startswith("-c"):
            word = word[2:]
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            word = name.replace("-", "_") + equals + value
        else:
            raise Refused(f"option {word} is not understood", hint="-c name=value is")
        name, _, value = word.partition("=")
        found[name] = value.replace("\0", " ")
    return found
