"""Which communication a propagated program is given. Inputs carry their shardings; what carries none is replicated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph, Op
from shardwright.notation.modules import read, write
from shardwright.partition import enclose, localize
from shardwright.partition.check import check
from shardwright.partition.materialize import Explicit, materialize
from shardwright.propagation import propagate
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, ReduceScatter

MESH = 'sdy.mesh @mesh = <["y"=4]>\n'


def explicit(body: str) -> Explicit:
    """Materialize, and check by our own checker and by the dialect's verifier."""
    made = materialize(read(load_module(MESH + body), "test.mlir"))
    check(made.graph)
    assert write(enclose(made.graph)).operation.verify()
    return made


def communication(graph: Graph) -> dict[str, int]:
    return dict(Counter(op.name for op in graph.walk() if op.name.startswith("sdy.") and op.name != "sdy.return"))


def sharded(*dims: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding<@mesh, [{', '.join(dims)}]>}}"


def value(*dims: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{', '.join(dims)}]>]>}}"


def product(result: str, output: str = "") -> str:
    """A matrix product contracted along y, its result wanted as `result`."""
    return f"""
    func.func @main(%a: tensor<512x1024xf32> {sharded("{}", '{"y"}')}, %b: tensor<1024x512xf32> {sharded('{"y"}', "{}")})
        -> (tensor<512x512xf32> {output or result.replace("_per_value<[<", "<").replace(">]>", ">")}) {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {result}
        : (tensor<512x1024xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
      return %0 : tensor<512x512xf32>
    }}"""


def test_a_sharding_group_in_an_explicit_program_is_no_collective() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512xf32> {sharded('{"y"}')}) -> tensor<512xf32> {{
      %0 = sdy.all_gather [{{"y"}}] %a out_sharding=<@mesh, [{{}}]> : tensor<512xf32>
      sdy.sharding_group %0 group_id = 0 : tensor<512xf32>
      return %0 : tensor<512xf32>
    }}""")
    assert communication(made.graph) == {"sdy.all_gather": 1, "sdy.sharding_group": 1}
    assert "sdy." not in "".join(localize(made.graph).op_names())


def test_a_contraction_along_an_axis_is_reduced() -> None:
    assert communication(explicit(product(value("{}", "{}"))).graph) == {"sdy.all_reduce": 1}


def test_it_is_reduced_into_the_shard_that_is_wanted() -> None:
    assert communication(explicit(product(value('{"y"}', "{}"))).graph) == {"sdy.reduce_scatter": 1}


@pytest.mark.parametrize(
    ("name", "joined"),
    [
        ("add", "add %0, %2 : tensor<512x512xf32>"),
        ("select", "select %p, %0, %2 : tensor<512x512xi1>, tensor<512x512xf32>"),
        ("complex", "complex %0, %2 : tensor<512x512xcomplex<f32>>"),
    ],
)
def test_partial_sums_are_joined_before_they_are_reduced(name: str, joined: str) -> None:
    result = "tensor<512x512xcomplex<f32>>" if name == "complex" else "tensor<512x512xf32>"
    made = explicit(f"""
    func.func @main(%a: tensor<512x1024xf32> {sharded("{}", '{"y"}')}, %b: tensor<1024x512xf32> {sharded('{"y"}', "{}")},
                    %c: tensor<1024x512xf32> {sharded('{"y"}', "{}")}, %p: tensor<512x512xi1>) -> {result} {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<512x1024xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
      %1 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0]
        : (tensor<512x1024xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
      %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<512x512xf32>) -> tensor<512x512xf32>
      %3 = stablehlo.{joined}
      %4 = stablehlo.tanh %3 : {result}
      return %4 : {result}
    }}""")
    assert communication(made.graph) == {"sdy.all_reduce": 1}
    (reduced,) = (op for op in made.graph.walk() if op.name == "sdy.all_reduce")
    names = [op.name for op in made.graph.main.block.ops]
    assert names.index(f"stablehlo.{name}") < names.index("sdy.all_reduce") < names.index("stablehlo.tanh")
    assert reduced.signature.step == AllReduce((made.graph.mesh.axis("y"),))


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("real %0 : (tensor<512x512xcomplex<f32>>) -> tensor<512x512xf32>", "stablehlo.real"),
        ("convert %0 : (tensor<512x512xcomplex<f32>>) -> tensor<512x512xcomplex<f64>>", "sdy.all_reduce"),
    ],
)
def test_partial_sums_pass_through_a_part_but_not_into_another_precision(line: str, first: str) -> None:
    t = "tensor<512x512xcomplex<f32>>"
    result = line.rpartition(" -> ")[2]
    made = explicit(f"""
    func.func @main(%a: {t} {sharded("{}", '{"y"}')}, %b: {t} {sharded('{"y"}', "{}")}) -> {result} {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}
      %1 = stablehlo.{line}
      return %1 : {result}
    }}""")
    assert made.graph.main.block.ops[1].name == first
    assert communication(made.graph) == {"sdy.all_reduce": 1}


def test_a_partial_sum_with_several_readers_is_reduced_once() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512x1024xf32> {sharded("{}", '{"y"}')}, %b: tensor<1024x512xf32> {sharded('{"y"}', "{}")})
        -> (tensor<512x512xf32>, tensor<512x512xf32>) {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<512x1024xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
      %1 = stablehlo.tanh %0 : tensor<512x512xf32>
      %2 = stablehlo.multiply %0, %1 : tensor<512x512xf32>
      return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
    }}""")
    assert communication(made.graph) == {"sdy.all_reduce": 1}


@pytest.mark.parametrize(("rows", "first"), [(64, "sdy.all_reduce"), (4096, "sdy.reduce_scatter")])
def test_a_large_partial_sum_is_reduced_to_the_shard_that_its_first_reader_needs(rows: int, first: str) -> None:
    """A small one is reduced for all: who needs the rest of it would start one collective more."""
    type, whole, shard = f"tensor<{rows}x64xf32>", value("{}", "{}"), value('{"y"}', "{}")
    made = explicit(f"""
        func.func @main(%a: tensor<{rows}x8192xf32> {sharded("{}", '{"y"}')}, %b: tensor<8192x64xf32> {sharded('{"y"}', "{}")})
            -> ({type} {sharded('{"y"}', "{}")}, {type} {sharded("{}", "{}")}) {{
          %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {whole}
            : (tensor<{rows}x8192xf32>, tensor<8192x64xf32>) -> {type}
          %1 = stablehlo.tanh %0 {shard} : {type}
          return %1, %0 : {type}, {type}
        }}""")
    assert next(iter(communication(made.graph))) == first


def test_an_integer_sum_of_parts_does_not_pass_through_a_product() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512x1024xi32> {sharded("{}", '{"y"}')}) -> tensor<512xi32> {{
      %c = stablehlo.constant dense<0> : tensor<i32>
      %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1]
        : (tensor<512x1024xi32>, tensor<i32>) -> tensor<512xi32>
      %1 = stablehlo.negate %0 : tensor<512xi32>
      return %1 : tensor<512xi32>
    }}""")
    names = [op.name for op in made.graph.main.block.ops]
    assert names.index("sdy.all_reduce") < names.index("stablehlo.negate")


@pytest.mark.parametrize(("target", "collective"), [("{}", "all_reduce"), ('{"y"}', "reduce_scatter")])
def test_a_maximum_is_reduced_by_a_step_of_its_kind(target: str, collective: str) -> None:
    graph = explicit(f"""
    func.func @main(%a: tensor<512x1024xf32> {sharded("{}", '{"y"}')}) -> (tensor<512xf32> {sharded(target)}) {{
      %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1] {value(target)}
        : (tensor<512x1024xf32>, tensor<f32>) -> tensor<512xf32>
      return %0 : tensor<512xf32>
    }}""").graph
    assert communication(graph) == {f"sdy.{collective}": 1}
    (step,) = (op.signature.step for op in graph.walk() if op.name == f"sdy.{collective}")
    assert isinstance(step, AllReduce | ReduceScatter)
    assert step.kind == "max"


def test_a_reduction_whose_body_is_not_known_is_split_along_another_dimension_and_noted() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512x1024xf32> {sharded("{}", '{"y"}')}) -> tensor<512xf32> {{
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %c) across dimensions = [1] : (tensor<512x1024xf32>, tensor<f32>) -> tensor<512xf32>
        reducer(%p: tensor<f32>, %q: tensor<f32>) {{
          %n = stablehlo.negate %p : tensor<f32>
          %s = stablehlo.add %n, %q : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }}
      return %0 : tensor<512xf32>
    }}""")
    assert communication(made.graph) == {"sdy.all_to_all": 1, "sdy.all_gather": 1}
    note, returned = made.notes
    assert (returned.op, returned.is_fallback) == ("func.return", False)
    assert (note.op, note.location) == ("stablehlo.reduce", "test.mlir:5")
    assert "split along another dimension than 1" in note.message
    assert note.bytes == 512 * 1024 * 4 // 4 * 3 // 4


def test_an_unknown_custom_call_is_computed_whole() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512xf32> {sharded('{"y"}')}) -> (tensor<512xf32> {sharded('{"y"}')}) {{
      %0 = stablehlo.custom_call @mystery(%a) {value('{"y"}')} : (tensor<512xf32>) -> tensor<512xf32>
      return %0 : tensor<512xf32>
    }}""")
    assert communication(made.graph) == {"sdy.all_gather": 1, "sdy.all_slice": 1}
    assert made.notes[0].op == "stablehlo.custom_call @mystery"


ONE_DEVICE = """
  sdy.mesh @one = <[], device_ids=[1]>
  func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @f(%a) {has_side_effect = false, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
"""


def test_what_is_said_to_be_on_one_device_is_computed_by_all() -> None:
    made = explicit(ONE_DEVICE)
    assert communication(made.graph) == {"sdy.all_gather": 1}
    (layout,) = made.graph.main.result_shardings
    assert layout is not None
    assert layout.mesh.name == "mesh"
    assert not layout.used_axes


def test_an_op_with_effects_on_one_device_is_refused_at_its_line() -> None:
    with pytest.raises(ShardingError, match="one device alone") as raised:
        explicit(ONE_DEVICE.replace("has_side_effect = false", "has_side_effect = true"))
    assert raised.value.diagnostic.location.startswith("test.mlir:5")


def test_constants_are_made_where_they_are_needed() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512xf32> {sharded('{"y"}')}, %b: tensor<512xf32>)
        -> (tensor<512xf32> {sharded('{"y"}')}, tensor<512xf32>) {{
      %c = stablehlo.constant dense<2.0> : tensor<f32>
      %w = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<512xf32>
      %0 = stablehlo.multiply %a, %w {value('{"y"}')} : tensor<512xf32>
      %1 = stablehlo.multiply %b, %w : tensor<512xf32>
      return %0, %1 : tensor<512xf32>, tensor<512xf32>
    }}""")
    assert communication(made.graph) == {}


def test_a_table_lookup_is_masked_and_summed() -> None:
    made = explicit(f"""
    func.func @main(%t: tensor<1024x512xf32> {sharded('{"y"}', "{}")}, %i: tensor<4x1xi32>) -> tensor<4x512xf32> {{
      %0 = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 512>}}>
        : (tensor<1024x512xf32>, tensor<4x1xi32>) -> tensor<4x512xf32>
      return %0 : tensor<4x512xf32>
    }}""")
    assert communication(made.graph) == {"sdy.all_reduce": 1}


def test_a_loop_carries_its_values_in_one_layout() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512xf32> {sharded('{"y"}')}) -> (tensor<512xf32> {sharded('{"y"}')}) {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %z, %v = %a) : tensor<i32>, tensor<512xf32>
        attributes {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{{"y"}}]>]>}}
      cond {{
        %n = stablehlo.constant dense<3> : tensor<i32>
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %w = stablehlo.tanh %v : tensor<512xf32>
        stablehlo.return %j, %w : tensor<i32>, tensor<512xf32>
      }}
      return %r#1 : tensor<512xf32>
    }}""")
    (loop,) = (op for op in made.graph.walk() if op.name == "stablehlo.while")
    layouts = [[made.graph.shardings[v] for v in values] for values in (loop.operands, loop.results)]
    layouts += [[made.graph.shardings[v] for v in block.arguments] for block in loop.regions]
    layouts += [[made.graph.shardings[v] for v in loop.regions[1].terminator.operands]]
    assert all(row == layouts[0] for row in layouts)
    assert repr(layouts[0][1]) == "[{y}]"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%0 = stablehlo.partition_id : tensor<ui32>", "stablehlo.partition_id"),
        (
            '%0 = "stablehlo.all_to_all"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64,'
            " channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,"
            " replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<512xf32>) -> tensor<512xf32>",
            "stablehlo.all_to_all",
        ),
    ],
)
def test_ops_without_meaning_on_one_device_are_refused_with_their_place(line: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as error:
        explicit(f"func.func @main(%a: tensor<512xf32>) {{\n{line}\nreturn }}")
    assert error.value.diagnostic.location == "test.mlir:3"
    assert error.value.diagnostic.remedy


def test_a_program_without_a_mesh_is_refused() -> None:
    with pytest.raises(ShardingError, match="no device mesh"):
        materialize(read(load_module("func.func @main() { return }")))


def _collective(graph: Graph) -> Op:
    return next(op for op in graph.walk() if op.name == "sdy.all_reduce")


def test_check_catches_a_collective_that_was_dropped() -> None:
    graph = explicit(product(value("{}", "{}"))).graph
    dropped = _collective(graph)
    graph.main.block.ops.remove(dropped)
    for op in graph.walk():
        op.operands = tuple(dropped.operands[0] if v == dropped.results[0] else v for v in op.operands)
    with pytest.raises(ShardingError, match=r"func\.return is not local"):
        check(graph)


def test_check_catches_a_collective_over_the_wrong_axis() -> None:
    graph = explicit(product(value("{}", "{}"))).graph
    op = _collective(graph)
    op.signature = replace(op.signature, step=AllReduce((AxisRef("y", 1, 2),)))
    with pytest.raises(ShardingError, match="not local"):
        check(graph)


def test_check_catches_a_layout_the_op_does_not_produce() -> None:
    graph = explicit(product(value("{}", "{}"))).graph
    dot = graph.main.block.ops[0]
    mesh = graph.meshes["mesh"]
    graph.shardings[dot.results[0]] = TensorSharding.of(mesh, [["y"], []])
    with pytest.raises(ShardingError, match=r"stablehlo\.dot_general is not local"):
        check(graph)


def test_check_catches_a_partial_sum_in_a_nonlinear_op() -> None:
    graph = explicit("""
    func.func @main(%a: tensor<512xf32>) -> tensor<512xf32> {
      %0 = stablehlo.tanh %a : tensor<512xf32>
      %1 = stablehlo.tanh %0 : tensor<512xf32>
      return %1 : tensor<512xf32>
    }""").graph
    partial = TensorSharding.of(graph.meshes["mesh"], [[]], partial=["y"])
    graph.shardings[graph.main.block.ops[0].results[0]] = partial
    with pytest.raises(ShardingError, match=r"stablehlo\.tanh is not local"):
        check(graph)


def test_an_explicit_program_that_is_read_again_stays_as_it_is() -> None:
    made = explicit(product(value("{}", "{}"))).graph
    text = module_text(write(made))
    again = materialize(read(load_module(text)))
    assert module_text(write(again.graph)) == text
    assert again.notes == ()


def test_an_explicit_program_that_is_wrong_is_refused() -> None:
    text = module_text(write(explicit(product(value("{}", "{}"))).graph))
    line = next(line for line in text.splitlines() if "sdy.all_reduce" in line)
    out = line.partition("out_sharding")[2]
    name = line.split("=")[0].strip()
    wrong = text.replace(', unreduced={"y"}', "").replace(
        line, f"{name} = sdy.all_slice [{{}}, {{}}] %0 out_sharding{out}"
    )
    with pytest.raises(ShardingError, match=r"stablehlo\.dot_general is not local"):
        materialize(read(load_module(wrong)))


def test_an_explicit_program_may_have_constants_of_sdy() -> None:
    text = """
    sdy.mesh @mesh = <["x"=2]>
    func.func @main() -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
      %0 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} dense<1.0> : tensor<4x2xf32>
      %1 = sdy.all_slice [{"x"}, {}] %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x2xf32>
      return %1 : tensor<4x2xf32>
    }
    """
    local = localize(materialize(read(load_module(text))).graph)
    made = [(op.name, op.signature.text("value")) for op in local.walk() if op.results]
    assert made[-1] == ("stablehlo.constant", "dense<1.000000e+00> : tensor<2x2xf32>")  # a part of it, and no slice
    assert not any(name == "stablehlo.partition_id" for name, _ in made)


def test_an_op_that_states_its_option_states_what_was_decided() -> None:
    """The option says along which axes the loops are split; this one comes to be split along the one that it sums."""
    text = product(value("{}", "{}")[:-1] + ", shardwright.option = [[0]]}", value("{}", "{}"))
    graph = explicit(text.replace("_per_value<[<", "<", 1).replace(">]>", ">", 1)).graph
    assert communication(graph) == {"sdy.all_reduce": 1}
    (op,) = [op for op in graph.walk() if op.name == "stablehlo.dot_general"]
    assert op.signature.text("shardwright.option") == "[[], [], [0]]"


def test_collectives_in_a_program_without_all_layouts_ask_for_layouts() -> None:
    made = explicit(f"""
    func.func @main(%a: tensor<512x512xf32> {sharded('{"y"}', "{}")}) -> tensor<512x512xf32> {{
      %0 = sdy.all_gather [{{"y"}}, {{}}] %a out_sharding=<@mesh, [{{}}, {{}}]> : tensor<512x512xf32>
      %1 = stablehlo.tanh %0 : tensor<512x512xf32>
      return %1 : tensor<512x512xf32>
    }}""")
    assert communication(made.graph) == {"sdy.all_gather": 1}


def test_tensors_of_index_are_not_split() -> None:
    text = """
    sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<8xindex> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xindex> {
      return %a : tensor<8xindex>
    }
    """
    made = materialize(propagate(read(load_module(text))))
    with pytest.raises(ShardingError) as caught:
        localize(made.graph)
    told = caught.value.diagnostic
    assert told.message == "argument 'arg0': a tensor of index, tensor<8xindex>, cannot be split"
    assert (told.op, told.location) == ("func.func", "-:3")
