"""Registries of schemas, as Confluent's: an event begins with a zero and the number of the schema it was written with.

Tasks ask for a schema when they first see its number, and keep it: what a number means never changes. So a registry
that cannot be reached holds up those events only whose schema is new to a process; and they wait, they are not bad.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.cdc.problems import SourceRefused, SourceUnreachable
from headrace.errors import InvalidParameterValue
from headrace.sources import avro
from headrace.sources.definition import Definition
from headrace.sources.values import NotThis

PATIENCE = 10.0
"""Seconds that an answer may take"""

KEPT = 1_000
"""Schemas that a process keeps"""

UNKNOWN_SECONDS = 5.0
"""For how long a number of which nothing could be made is not asked for again: a block may be full of it"""

_HEADER = 5
_schemas: dict[tuple[str, int], Any] = {}
_of_no_use: dict[tuple[str, int], tuple[float, NotThis]] = {}


@dataclass(frozen=True, kw_only=True)
class Registry:
    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def read(self, data: bytes) -> Any:
        if len(data) < _HEADER or data[0] != 0:
            raise NotThis("it does not begin with the number of a schema")
        return avro.read_value(data, self.schema(int.from_bytes(data[1:_HEADER], "big")), _HEADER)

    def schema(self, number: int) -> Any:
        key = self.url, number
        if key in _schemas:
            return _schemas[key]
        asked, reason = _of_no_use.pop(key, (-UNKNOWN_SECONDS, NotThis()))
        try:
            if time.monotonic() - asked < UNKNOWN_SECONDS:
                raise reason
            asked, found = time.monotonic(), self._known(number)
        except NotThis as problem:
            _keep(_of_no_use, key, (asked, problem))
            raise
        _keep(_schemas, key, found)
        return found

    def _known(self, number: int) -> Any:
        if (found := self.ask(f"/schemas/ids/{number}")) is None:
            raise NotThis(f"the registry has no schema {number}")
        return self._parsed(found, {}, f"schema {number}")

    def _parsed(self, found: Mapping[str, Any], named: dict[str, Any], what: str) -> Any:
        """With the schemas that it refers to, which are parsed before it."""
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            # Somebody answers in its place, a proxy perhaps: that is nothing that the event could help.
            raise SourceUnreachable(f"the registry of schemas at {self.url} answers for {what} with something else")
        avro_library = avro.library()
        if found.get("schemaType", "AVRO") != "AVRO":
            raise NotThis(f"{what} is not one of Avro's, but {found['schemaType']}")
        for each in found.get("references") or ():
            subject, version = urllib.parse.quote(each["subject"], safe=""), each["version"]
            other = self.ask(f"/subjects/{subject}/versions/{version}")
            if other is None:
                raise NotThis(f"{what} refers to version {version} of {each['subject']}, which the registry has not")
            self._parsed(other, named, f"version {version} of {each['subject']}")
        try:
            return avro_library.parse_schema(avro.meant(json.loads(found["schema"])), named_schemas=named)
        except MemoryError:
            raise
        except Exception as problem:  # it has errors of many kinds for that
            raise NotThis(f"{what} cannot be read: {problem}") from None

    def ask(self, path: str) -> Any:
        """The answer; None if the registry has no such thing."""
        request = urllib.request.Request(self.url.rstrip("/") + path, headers={"Accept": "application/json"})
        if self.user is not None:
            given = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            # Not for whom an answer refers us to: that may be anybody.
            request.add_unredirected_header("Authorization", f"Basic {given}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code == 404:
                return None
            if problem.code in (401, 403):
                raise SourceRefused(
                    f"the registry of schemas at {self.url} does not let us in ({problem.code} {problem.reason})",
                    hint="see schema.registry.username and schema.registry.password",
                ) from None
            raise SourceUnreachable(f"the registry of schemas at {self.url} answers {problem.code}") from None
        except (OSError, ValueError, http.client.HTTPException) as problem:
            reason = getattr(problem, "reason", problem)
            raise SourceUnreachable(f"the registry of schemas at {self.url} cannot be reached: {reason}") from None


def _keep(where: dict[Any, Any], key: Any, what: Any) -> None:
    if len(where) >= KEPT:
        where.pop(next(iter(where)))
    where[key] = what


def records_of(definition: Definition, secrets: Mapping[str, str]) -> avro.Records | None:
    """What reads the records of a source; None if its events are none."""
    if definition.encode != "avro":
        return None
    options = dict(definition.encode_options)
    if avro.SCHEMA in options:
        return avro.OneSchema(options[avro.SCHEMA])
    return Registry(url=options[avro.REGISTRY], user=options.get(avro.USERNAME), password=secrets.get(avro.PASSWORD))


def check(definition: Definition) -> None:
    """Refuses a registry that nobody can ask, without asking it."""
    avro.check(definition)
    options = dict(definition.encode_options)
    url = urllib.parse.urlsplit(options.get(avro.REGISTRY, "http://none"))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidParameterValue(f"schema.registry cannot be '{options[avro.REGISTRY]}'", hint="it is an http URL")
    if url.username is not None:
        raise InvalidParameterValue(
            "schema.registry cannot have a user in it",
            hint="give schema.registry.username and schema.registry.password",
        )


def resolve(definition: Definition, secrets: Mapping[str, str]) -> None:
    """Asks whether there is one: a wrong address is said when the source is made, not by its first event."""
    if (avro.PASSWORD in secrets) != (avro.USERNAME in dict(definition.encode_options)):
        raise InvalidParameterValue(f"{avro.USERNAME} and {avro.PASSWORD} belong together", hint="give both, or none")
    found = records_of(definition, secrets)
    if isinstance(found, Registry) and found.ask("/subjects") is None:
        raise SourceRefused(f"there is no registry of schemas at {found.url}", hint="is the path right?")
