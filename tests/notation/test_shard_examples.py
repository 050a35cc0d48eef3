import pytest

from shardwright.ir.context import load_module, module_text
from shardwright.notation.forms.texts import ops, respell, to_custom, to_generic
from shardwright.notation.shard.dialect.tables import SHARD
from tests.notation.forms.programs import OPS, module


@pytest.mark.parametrize("op", OPS)
def test_an_op_comes_back_byte_for_byte_through_mlir(op: str) -> None:
    text = module(op)
    printed = module_text(load_module(to_generic(text, [SHARD])))
    assert "shard." not in printed.replace('"shard.', "").replace("!shard.", "").replace("#shard.", "")
    assert to_custom(printed, [SHARD]) == text


@pytest.mark.parametrize("op", OPS)
def test_what_mlir_prints_is_what_the_generic_form_says(op: str) -> None:
    generic = to_generic(module(op), [SHARD])
    assert module_text(load_module(generic)) == generic


@pytest.mark.parametrize("op", OPS)
def test_the_mesh_spelling_reads_as_the_same_module(op: str) -> None:
    generic = to_generic(module(op), [SHARD])
    mesh = respell(module(op), [SHARD], "mesh")
    assert "shard.grid" not in mesh
    assert "!shard." not in mesh
    assert to_generic(mesh, [SHARD]) == generic


@pytest.mark.parametrize("op", OPS)
def test_properties_are_read_as_attributes(op: str) -> None:
    generic = to_generic(module(op), [SHARD])
    head, _, rest = generic.partition("func.func")
    properties = head + "func.func" + rest.replace(") {", ") <{", 2).replace("<{\n", "{\n").replace("} : ", "}> : ", 1)
    assert to_generic(properties, [SHARD]) == generic


def test_every_op_of_the_table_has_an_example_and_a_source() -> None:
    written = {op.form.name for op in ops("\n".join(map(module, OPS)), [SHARD])}
    newest = {name for name, form in SHARD.forms.items() if not form.renamed}
    assert written == newest | {"mesh.sharding"}
    assert all("Source: " in form.doc for form in SHARD.forms.values())


def test_an_op_knows_its_results_operands_types_location_and_position() -> None:
    text = 'shard.grid @g(shape = 2x4)\n  %d, %u =\n shard.neighbors_linear_indices on @g[%i, %j#1]\n split_axes = [1] {a} : index, index loc("x")\n'
    _, op = ops(text, [SHARD], "grid.mlir")
    assert op.results == ("%d", "%u")
    assert op.operands == {"device": ("%i", "%j#1")}
    assert (op.operand_types, op.result_types) == (("index", "index"), ("index", "index"))
    assert op.attributes == {"grid": "g", "split_axes": (1,)}
    assert (op.extra, op.location, op.position) == ({"a": None}, 'loc("x")', "grid.mlir:3:2")
