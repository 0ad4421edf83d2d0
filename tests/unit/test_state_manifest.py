from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.errors import CorruptWarehouse, Unsupported
from headrace.state.manifest import Change, Manifest, Writer, decode, encode, referenced_files
from headrace.state.runs import Run, RunFile
from headrace.types import SqlType, array_of

WRITER = Writer(id="w1", host="here", pid=7)


def run(id: str, epoch: int = 1, *, groups: int = 1) -> Run:
    file = RunFile(path=f"data/1/{id}.parquet", rows=3, bytes=9, low=b"\0", high=b"\xff", groups=groups)
    return Run(id=id, first_epoch=epoch, last_epoch=epoch, files=(file,))


def relation(id: int, name: str, comment: str | None = None) -> Relation:
    return Relation(
        id=id,
        name=name,
        kind=TABLE,
        columns=(
            Column(name="k", type=SqlType("numeric", precision=10, scale=2), nullable=False),
            Column(name="t", type=array_of(SqlType("varchar")), default="'x'"),
        ),
        pk=(KeyColumn(name="k", descending=True, nulls_first=True),),
        distribution=("k",),
        options=(("a", "b"),),
        comment=comment,
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
documents = st.dictionaries(st.text(max_size=3), json_values, max_size=3)


@st.composite
def manifests(draw) -> Manifest:
    catalog = Catalog()
    for id in sorted(draw(st.sets(st.integers(1, 5)))):
        catalog = catalog.add(relation(id, f"t{id}", draw(st.none() | st.just("é"))))
    runs = {
        id: tuple(run(name, draw(st.integers(1, 2))) for name in names)
        for id, names in draw(
            st.dictionaries(st.integers(1, 3), st.lists(st.sampled_from("abcdef"), unique=True), max_size=3)
        ).items()
    }
    versions = sorted(draw(st.sets(st.integers(1, 8))))
    return Manifest(
        version=draw(st.integers(0, 100)),
        epoch=draw(st.integers(0, 1 << 50)),
        committed_at=draw(st.integers(0, 1 << 60)),
        writer=draw(st.sampled_from([WRITER, Writer(id="w2", host="there", pid=8)])),
        catalog=catalog,
        runs=runs,
        positions=draw(documents),
        offsets=draw(documents),
        parameters=draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)),
        history=tuple((version, version * 10, version * 100) for version in versions),
    )


@given(manifests())
def test_a_manifest_can_be_read_back(manifest):
    assert decode(encode(manifest), "m") == manifest


@given(manifests(), manifests())
def test_a_change_leads_from_any_manifest_to_any_other(old, new):
    new = dataclasses.replace(new, version=old.version + 1)
    change = Change.between(old, new)
    assert change.apply(old) == new
    assert decode(encode(change), "m") == change
    assert decode(encode(change), "m").apply(old) == new


def test_a_small_epoch_is_a_small_file_however_large_the_warehouse():
    catalog = Catalog()
    for id in range(1, 101):
        catalog = catalog.add(relation(id, f"t{id}"))
    runs = {id: tuple(run(f"{id}-{number}") for number in range(50)) for id in range(1, 101)}
    history = tuple((version, version, version) for version in range(1, 1001))
    old = Manifest(version=1000, epoch=1000, catalog=catalog, runs=runs, history=history, positions={"p": [1] * 1000})
    new = old.next(writer=WRITER, committed_at=5, epoch=1001, runs=runs | {7: (*runs[7], run("new", 1001))})
    assert len(encode(new)) > 500_000
    assert len(encode(Change.between(old, new))) < 700
    assert Change.between(old, new).apply(old) == new


def test_one_new_relation_does_not_rewrite_the_others():
    catalog = Catalog()
    for id in range(1, 101):
        catalog = catalog.add(relation(id, f"t{id}"))
    old = Manifest(catalog=catalog)
    new = old.next(writer=WRITER, committed_at=5, catalog=catalog.add(relation(101, "t101")))
    assert len(encode(Change.between(old, new))) < 700


def test_a_merge_replaces_neighbours_in_place():
    old = Manifest(runs={1: (run("a", 1), run("b", 2), run("c", 3), run("d", 4))})
    new = old.next(writer=WRITER, committed_at=5, runs={1: (run("a", 1), run("bc", 2), run("d", 4))})
    change = Change.between(old, new)
    assert change.runs[1].remove == ("b", "c")
    assert [(place, each.id) for place, each in change.runs[1].add] == [(1, "bc")]
    assert change.apply(old) == new


def test_next_and_forgetting_keep_the_history():
    first = Manifest().next(writer=WRITER, committed_at=10, epoch=1)
    second = first.next(writer=WRITER, committed_at=20, epoch=2)
    assert second.history == ((1, 1, 10), (2, 2, 20))
    third = second.forget_before(2).next(writer=WRITER, committed_at=30)
    assert third.history == ((2, 2, 20), (3, 2, 30))
    assert Change.between(second, third).apply(second) == third


def test_a_change_fits_only_the_version_before():
    old = Manifest(version=4)
    change = Change.between(old, old.next(writer=WRITER, committed_at=5))
    with pytest.raises(ValueError, match="follows version 4, not 3"):
        change.apply(Manifest(version=3))
    removing = Change.between(Manifest(version=4, runs={1: (run("a"),)}), Manifest(version=5, runs={1: (run("b", 9),)}))
    with pytest.raises(ValueError, match="removes the run a"):
        removing.apply(Manifest(version=4, runs={1: ()}))


@given(st.data())
def test_any_damage_is_noticed_and_names_the_file(data):
    good = encode(Manifest().next(writer=WRITER, committed_at=1))
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    cut = good[:at]
    for bad in (flipped, cut):
        with pytest.raises((CorruptWarehouse, Unsupported), match="manifest/12.json") as caught:
            decode(bad, "manifest/12.json")
        assert caught.value.hint


def test_another_format_is_not_called_damage():
    with pytest.raises(Unsupported, match="format 2"):
        decode(b"headrace-manifest 2 sha256=0\n{}\n", "m")


def test_a_document_without_its_fields_is_damaged():
    import hashlib

    body = json.dumps({"kind": "full"}).encode()
    header = f"headrace-manifest 1 sha256={hashlib.sha256(body).hexdigest()}\n".encode()
    with pytest.raises(CorruptWarehouse, match="lacks"):
        decode(header + body, "m")


def test_positions_must_be_json():
    with pytest.raises((TypeError, ValueError)):
        encode(Manifest(positions={"p": float("nan")}))
    with pytest.raises((TypeError, ValueError)):
        encode(Manifest(positions={"p": b"bytes"}))


def test_referenced_files_count_the_sidecars():
    named = referenced_files([Manifest(runs={1: (run("a"), run("b", groups=2))})])
    assert named == {"data/1/a.parquet", "data/1/b.parquet", "data/1/b.parquet.index"}
