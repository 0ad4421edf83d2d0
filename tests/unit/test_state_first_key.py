"""Files of chunks know the range of the first column of their keys, and are passed over by lookups beside it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog import KeyColumn
from headrace.state.layout import Layout
from headrace.state.lookup import probes
from headrace.state.runs import VNODE, GroupIndex, RunFile
from headrace.types import SqlType

INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)


def layout(kind: str, *, descending: bool = False) -> Layout:
    return Layout(
        relation_id=1,
        columns=(("a", SqlType(kind)), ("b", SqlType("integer"))),
        pk=(KeyColumn(name="a", descending=descending), KeyColumn(name="b")),
        distribution=("a", "b"),
    )


def rows(of: Layout, firsts: list) -> pa.Table:
    return pa.table([firsts, list(range(len(firsts)))], schema=of.row_schema)


@pytest.mark.parametrize(("kind", "values"), [("integer", INTS), ("varchar", TEXTS)])
@pytest.mark.parametrize("descending", [False, True])
@given(data=st.data())
def test_no_row_lies_beside_the_range(kind, values, descending, data):
    of = layout(kind, descending=descending)
    firsts = data.draw(st.lists(values, min_size=1, max_size=9))
    others = data.draw(st.lists(values, max_size=9))
    file = RunFile(path="f", rows=9, bytes=9, low=b"", high=b"\xff", first_key=of.first_key(rows(of, firsts)))
    assert RunFile.from_json(file.to_json()) == file
    for number, first in enumerate(firsts):
        assert file.may_hold(of.codec.encode_with_vnode(7, [first, number]))
    for other in others:
        within = min(firsts) <= other <= max(firsts) if kind == "integer" else None
        if within is not None:
            assert file.may_hold(of.codec.encode_with_vnode(7, [other, 0])) == within


@pytest.mark.parametrize("kind", ["double precision", "real"])
def test_floats_are_not_ordered_by_arrow(kind):
    of = layout(kind)
    assert of.first_key(rows(of, [1.0, float("nan")])) is None


class Indexes:
    def get(self, file: RunFile) -> GroupIndex:
        return GroupIndex(((file.low, file.high, file.rows),))


def test_a_lookup_reads_only_files_that_may_have_its_keys():
    of = layout("integer")
    files, keys = [], []
    for number in range(4):
        firsts = rows(of, list(range(100 * number, 100 * number + 100)))
        stored = firsts.append_column(VNODE, pa.array([each % 256 for each in range(100)], pa.int16()))
        bounds = sorted(of.encode(stored))
        files.append(
            RunFile(path=str(number), rows=100, bytes=9, low=bounds[0], high=bounds[-1], first_key=of.first_key(firsts))
        )
    keys = sorted(of.codec.encode_with_vnode(50, [first, 50]) for first in (150, 151, 350))
    found = probes(files, keys, Indexes())
    assert [(probe.path, probe.first_key, probe.last_key) for probe in found] == [("1", 0, 2), ("3", 2, 3)]
    assert probes(files, [of.codec.encode_with_vnode(50, [400, 0])], Indexes()) == []
