"""connector = 'datagen': rows that are worked out from their number, and from nothing else.

    CREATE SOURCE gen (id BIGINT, price DOUBLE PRECISION, at TIMESTAMPTZ)
    WITH (connector = 'datagen', fields.id.kind = 'sequence', fields.price.min = '1', datagen.rows.per.second = '1000')

There are so many per second since the source was created; see :mod:`headrace.sources.generated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sources.definition import Definition, whole_number
from headrace.sources.generated import Generator, connector, mixed
from headrace.types import SqlType

RATE, SPLITS, SEED, ROWS = "datagen.rows.per.second", "datagen.split.num", "datagen.seed", "datagen.rows"

_INTEGERS = {"smallint": 1 << 15, "integer": 1 << 31, "bigint": 1 << 63}
_FIELD_OPTIONS = ("kind", "start", "end", "min", "max", "length", "seed")


@dataclass(frozen=True, kw_only=True)
class Field:
    name: str
    type: SqlType
    sequence: bool
    start: int = 0
    end: int | None = None
    low: float = 0
    high: float = 0
    length: int = 10
    seed: int = 0


def check(definition: Definition) -> None:
    definition.refuse_format()
    definition.check_options({RATE, SPLITS, SEED, ROWS}, ("fields.",))
    definition.check_include(("partition", "offset"))
    names = {name for name, _ in definition.columns}
    for option in definition.option:
        if option.startswith("fields."):
            name, _, what = option.removeprefix("fields.").rpartition(".")
            if name not in names:
                raise InvalidParameterValue(f'option "{option}": there is no column "{name}"')
            if what not in _FIELD_OPTIONS:
                raise InvalidParameterValue(
                    f'option "{option}" is not known', hint=f"a field has {', '.join(_FIELD_OPTIONS)}"
                )
    Datagen.of(definition, 0.0)


@dataclass(frozen=True, kw_only=True)
class Datagen(Generator):
    fields: tuple[Field, ...]
    rate: int
    limit: int | None
    """Rows of all splits together"""

    @staticmethod
    def of(definition: Definition, created_at: float) -> Datagen:
        options = definition.option
        seed = whole_number(options, SEED, 0)
        fields = tuple(
            _field(name, kind, options, seed + number) for number, (name, kind) in enumerate(definition.columns)
        )
        limits = [each.end - each.start + 1 for each in fields if each.end is not None]
        if ROWS in options:
            limits.append(whole_number(options, ROWS, 0))
        return Datagen(
            definition=definition,
            fields=fields,
            splits=whole_number(options, SPLITS, 1, least=1, most=1024),
            rate=whole_number(options, RATE, 10, least=1),
            limit=min(limits) if limits else None,
            created_at=created_at,
        )

    def count(self, now: float) -> int:
        rows = max(0, int((now - self.created_at) * self.rate))
        return rows if self.limit is None else min(rows, self.limit)

    def columns(self, numbers: np.ndarray) -> dict[str, pa.Array]:
        return {each.name: self._values(each, numbers) for each in self.fields}

    def _values(self, field: Field, numbers: np.ndarray) -> pa.Array:
        if field.sequence:
            return pa.array(numbers + field.start)
        name = field.type.name
        if name in ("timestamp", "timestamptz"):
            # When the row became one: deterministic, too.
            micros = (self.created_at * 1e6 + numbers * (1e6 / self.rate)).astype(np.int64)
            return pa.array(micros).cast(pa.timestamp("us")).cast(field.type.arrow)
        drawn = mixed(numbers, field.seed)
        if name == "varchar":
            return pa.array([f"{each:016x}"[: field.length] for each in drawn.tolist()], pa.string())
        if name == "boolean":
            return pa.array((drawn & np.uint64(1)).astype(bool))
        fraction = (drawn >> np.uint64(11)).astype(np.float64) / float(1 << 53)
        if name in _INTEGERS:
            span = int(field.high) - int(field.low) + 1
            return pa.array((fraction * span).astype(np.int64) + int(field.low))
        return pa.array(fraction * (field.high - field.low) + field.low)


def _field(name: str, kind: SqlType, options: Mapping[str, str], seed: int) -> Field:
    def of(what: str) -> str | None:
        return options.get(f"fields.{name}.{what}")

    sequence = (of("kind") or "random") == "sequence"
    if of("kind") not in (None, "sequence", "random"):
        raise InvalidParameterValue(f"fields.{name}.kind cannot be '{of('kind')}'", hint="it is sequence or random")
    known = (*_INTEGERS, "real", "double precision", "varchar", "boolean", "timestamp", "timestamptz")
    if kind.name not in known or (sequence and kind.name not in _INTEGERS):
        raise InvalidDefinition(
            f'datagen cannot make {"a sequence" if sequence else "values"} of type {kind} for column "{name}"',
            hint=f"it makes {', '.join(known)}; sequences are of whole numbers",
        )
    try:
        return Field(
            name=name,
            type=kind,
            sequence=sequence,
            start=int(of("start") or 0),
            end=None if of("end") is None or not sequence else int(of("end") or 0),
            low=float(of("min") or 0),
            high=float(of("max") or 1000),
            length=int(of("length") or 10),
            seed=int(of("seed") or seed),
        )
    except ValueError as problem:
        raise InvalidParameterValue(f'an option of field "{name}" is not a number: {problem}') from None


CONNECTOR = connector(check, Datagen.of)
