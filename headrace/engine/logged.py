"""What a log says about a table, as what successive epochs do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.catalog import Relation
from headrace.cdc.changelog import UNCHANGED, Change, Piece, Truncate, columns_of, fold
from headrace.cdc.intake import Intake, Numbered
from headrace.cdc.problems import SchemaChanged, TableStopped
from headrace.cdc.values import column
from headrace.engine.changes import OLD_ROW, ChangelogRows, Fill, UpdateFrame
from headrace.engine.followed import Followed
from headrace.errors import HeadraceError
from headrace.state.layout import Layout
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

Step = dict[int, Any]
"""By table: what one epoch does to it"""


class Grown(Exception):
    """The log has come to where a table has more columns."""

    def __init__(self, table: Followed, piece: int, *, inside: bool):
        super().__init__()
        self.table, self.piece, self.inside = table, piece, inside
        """Whether that is inside a transaction, which has rows of before, too"""


def arrived(
    pieces: Sequence[Piece],
    tables: Mapping[int, Followed],
    intakes: dict[int, Intake],
    may_grow: Callable[[Followed], bool] = lambda table: False,
) -> dict[int, list[Numbered]]:
    """The changes of each table. Those that cannot go on are added to the intakes; one that has more columns in some
    piece, and may get them, is raised."""
    found: dict[int, list[Numbered]] = {}
    for number, piece in enumerate(pieces):
        for event in piece.events:
            for table, relation in _concerned(event, tables):
                id = table.relation.id
                if id in intakes or table.intake.progress.error is not None:
                    continue
                try:
                    changes = table.changes(event, relation)
                except SchemaChanged as error:
                    # What was written before its columns became as we know them comes with the first chunk.
                    if not table.intake.will_see(piece.xid):
                        intakes[id] = table.intake.stopped(told(error), changed=True)
                except TableStopped as error:
                    intakes[id] = table.intake.stopped(told(error))
                else:
                    if table.adds and may_grow(table):
                        inside = any(transaction == piece.xid for transaction, _ in found.get(id, ()))
                        raise Grown(table, number, inside=inside)
                    found.setdefault(id, []).extend((piece.xid, change) for change in changes)
    return found


def _concerned(event: Any, tables: Mapping[int, Followed]) -> Iterator[tuple[Followed, Any]]:
    """The tables that an event of the log may concern, and how it describes them."""
    for table in tables.values():
        if event.relations is None:
            yield table, None
            continue
        for relation in event.relations:
            if table.state.table.is_described_by(relation):
                yield table, relation


class Reason(str):
    """Why a table has stopped, for who asks for it."""

    for_log: str

    def __new__(cls, text: str, *, for_log: str | None = None) -> Reason:
        reason = super().__new__(cls, text)
        reason.for_log = text if for_log is None else for_log
        return reason


def told(error: HeadraceError) -> Reason:
    def with_hint(text: str) -> str:
        return text if error.hint is None else f"{text} ({error.hint})"

    return Reason(with_hint(error.message), for_log=with_hint(error.for_log))


def add_steps(
    steps: list[Step], relation: Relation, key: Sequence[str], changes: Sequence[Change | Truncate], engine: Engine
) -> None:
    """The changes as what successive epochs do: all up to a TRUNCATE, it, and all behind it."""
    number, segment = 0, []

    def add(change: Any) -> None:
        nonlocal number
        if number == len(steps):
            steps.append({})
        steps[number][relation.id] = change
        number += 1

    for change in changes:
        if isinstance(change, Truncate):
            segment = []  # none of it is left
            add(_everything(relation, engine))
        else:
            segment.append(change)
    if segment:
        add(_changelog_rows(Layout.of(relation), key, segment))


def _everything(relation: Relation, engine: Engine) -> UpdateFrame:
    struct = f"struct({', '.join(map(quote_spark, Layout.of(relation).names))}) AS {OLD_ROW}"
    return UpdateFrame(build=lambda state: engine.frame(state, relation.id).selectExpr(struct), deletes=True)


def _changelog_rows(layout: Layout, key: Sequence[str], changes: Sequence[Change]) -> ChangelogRows:
    folded = fold(changes)
    names = layout.names
    texts = columns_of(folded.puts, len(names))
    rows = pa.table(
        [
            column(pa.array(each, pa.string()), layout.types[name], name)
            for name, each in zip(names, texts, strict=True)
        ],
        schema=layout.row_schema,
    )
    origins = {origin: number for number, origin in enumerate(dict.fromkeys(folded.fills.values()))}
    places = [names.index(name) for name in key]
    fills = tuple(
        Fill(
            row=row,
            key=tuple(folded.puts[row][at] for at in places),
            columns=tuple(name for name, value in zip(names, folded.puts[row], strict=True) if value is UNCHANGED),
            origin=origins[origin],
        )
        for row, origin in folded.fills.items()
    )
    return ChangelogRows(
        rows=rows, deletes=_keys(layout, key, folded.deletes), origins=_keys(layout, key, [*origins]), fills=fills
    )


def _keys(layout: Layout, key: Sequence[str], keys: Sequence[tuple[str, ...]]) -> pa.Table:
    texts = columns_of(keys, len(key))
    return pa.table(
        {
            name: column(pa.array(each, pa.string()), layout.types[name], name)
            for name, each in zip(key, texts, strict=True)
        }
    )
