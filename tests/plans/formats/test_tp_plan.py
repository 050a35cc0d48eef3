"""HuggingFace's `tp_plan` as shardings of arguments, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.plans.formats.module_names import is_about, most_exact, parts_of
from tests.plans.formats.programs import layouts, program, sharded

LLAMA = {
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.k_proj": "colwise",
    "layers.*.self_attn.v_proj": "colwise",
    "layers.*.self_attn.o_proj": "rowwise",
    "layers.*.mlp.gate_proj": "colwise",
    "layers.*.mlp.up_proj": "colwise",
    "layers.*.mlp.down_proj": "rowwise",
}
MESH = sw.Mesh(dp=2, tp=4)


def llama(layers: int = 2) -> sw.Program:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (128, 16)}
    for layer in range(layers):
        start = f"model.layers.{layer}"
        shapes |= {f"{start}.self_attn.{one}_proj.weight": (16, 16) for one in "qkvo"}
        shapes |= {f"{start}.self_attn.{one}_proj.bias": (16,) for one in "qo"}
        shapes |= {f"{start}.mlp.{one}_proj.weight": (32, 16) for one in ("gate", "up")}
        shapes |= {f"{start}.mlp.down_proj.weight": (16, 32), f"{start}.input_layernorm.weight": (16,)}
    return program({**shapes, "lm_head.weight": (128, 16)})


def test_a_llama_lies_as_its_configuration_says() -> None:
    plan = llama().apply(LLAMA, MESH, strict=True)
    start = "model.layers.1"
    expected = {f"{start}.self_attn.{one}_proj.weight": "[{tp}, {}]" for one in "qkv"}
    expected |= {f"{start}.mlp.{one}_proj.weight": "[{tp}, {}]" for one in ("gate", "up")}
    expected |= {f"{start}.self_attn.o_proj.weight": "[{}, {tp}]", f"{start}.mlp.down_proj.weight": "[{}, {tp}]"}
    expected |= {f"{start}.self_attn.q_proj.bias": "[{tp}]", f"{start}.self_attn.o_proj.bias": "[{}]"}
    assert layouts(plan, *expected) == expected
    assert len(layouts(plan)) == 2 * 8
    assert plan.fit is not None
    assert "lm_head.weight" in plan.fit.new


def test_it_comes_back_from_the_plan() -> None:
    made = llama().apply(LLAMA, MESH).to("tp_plan", strict=True)
    assert made.content == {f"model.{name}": style for name, style in LLAMA.items()}


STYLES = [
    ("colwise", {"weight": "[{tp}, {}]", "bias": "[{tp}]"}),
    ("colwise_gather_output", {"weight": "[{tp}, {}]", "bias": "[{tp}]"}),
    ("colwise_rep", {"weight": "[{tp}, {}]", "bias": "[{tp}]"}),
    ("rowwise", {"weight": "[{}, {tp}]", "bias": "[{}]"}),
    ("rowwise_split_input", {"weight": "[{}, {tp}]", "bias": "[{}]"}),
    ("local_rowwise", {"weight": "[{}, {tp}]", "bias": "[{}]"}),
    ("replicated_with_grad_allreduce", {"weight": "[{}, {}]", "bias": "[{}]"}),
    ("sequence_parallel", {"weight": "[{}, {}]", "bias": "[{}]"}),
    ("embedding_rowwise", {"weight": "[{tp}, {}]"}),
    ("embedding_colwise", {"weight": "[{}, {tp}]"}),
    ("grouped_gemm", {"weight": "[{tp}, {}]"}),
]


@pytest.mark.parametrize(("style", "expected"), STYLES, ids=[style for style, _ in STYLES])
def test_each_style_lies_as_the_library_has_it(style: str, expected: dict[str, str]) -> None:
    shapes = {"weight": (8, 8), "bias": (8,)}
    plan = program({f"m.lin.{own}": shapes[own] for own in expected}).apply({"lin": style}, MESH, strict=True)
    assert layouts(plan, *(f"m.lin.{own}" for own in expected)) == {
        f"m.lin.{own}": text for own, text in expected.items()
    }


def test_experts_are_split_where_fused_weights_say_so_by_their_own_names() -> None:
    shapes = {"m.experts.gate_up_proj": (4, 16, 8), "m.experts.down_proj": (4, 8, 8)}
    styles = {"experts": "moe_tp_experts", "experts.gate_up_proj": "packed_colwise", "experts.down_proj": "rowwise"}
    plan = program(shapes).apply(styles, MESH)
    assert layouts(plan) == {"m.experts.down_proj": "[{}, {}, {tp}]"}
    assert plan.fit is not None
    [unfit] = plan.fit.unfit
    assert (unfit.name, unfit.cause) == (
        "m.experts.gate_up_proj",
        "packed_colwise: each device holds a run of rows of every packed part, which no sharding says",
    )


def test_what_no_argument_is_called_and_kernels_are_told() -> None:
    plan = program({"m.up.kernel": (8, 8), "m.norm.scale": (8,)}).apply({"up": "colwise", "down": "rowwise"}, MESH)
    assert plan.fit is not None
    assert [(one.name, one.cause) for one in plan.fit.unfit] == [
        ("m.up.kernel", "colwise is said of torch's [out, in], and a kernel is [in, out]"),
        ("down", "no argument has such a name"),
    ]
    with pytest.raises(sw.ShardingError, match="2 entries of 2"):
        program({"m.up.kernel": (8, 8)}).apply({"up": "colwise", "down": "rowwise"}, MESH, strict=True)


def test_a_style_of_a_module_whose_parameters_have_others_is_used() -> None:
    styles = {"up": "colwise", "up.weight": "rowwise"}
    plan = program({"m.up.weight": (8, 8)}).apply(styles, MESH, strict=True)
    assert layouts(plan) == {"m.up.weight": "[{}, {tp}]"}


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(sw.ShardingError, match="unknown style 'columns' of 'up'"):
        program({"m.up.weight": (8, 8)}).apply({"up": "columns"}, MESH)


@pytest.mark.parametrize(
    ("mesh", "options", "axis"),
    [
        (sw.Mesh(data=2, model=4), {}, "model"),
        (sw.Mesh(a=1, b=4), {}, "b"),
        (sw.Mesh(a=2, b=4), {"axis": "a"}, "a"),
        (sw.Mesh(tensor=2, tp=2), {}, "tp"),
    ],
)
def test_the_axis_is_found_or_given(mesh: sw.Mesh, options: dict[str, str], axis: str) -> None:
    plan = program({"m.up.weight": (8, 8)}).apply(sw.load_plan({"up": "colwise"}, **options), mesh)
    assert layouts(plan) == {"m.up.weight": f"[{{{axis}}}, {{}}]"}


def test_no_mesh_and_no_axis_are_told_with_what_to_do() -> None:
    with pytest.raises(sw.ShardingError, match="the mesh is not known") as caught:
        program({"m.up.weight": (8, 8)}).apply({"up": "colwise"})
    assert "sw.Mesh(data=2, model=4)" in str(caught.value)
    with pytest.raises(sw.ShardingError, match=r"sw.load_plan\(plan, axis='a'\)"):
        program({"m.up.weight": (8, 8)}).apply({"up": "colwise"}, {"a": 2, "b": 4})
    with pytest.raises(sw.ShardingError, match="tp_plan takes no 'axes'"):
        program({"m.up.weight": (8, 8)}).apply(sw.load_plan({"up": "colwise"}, axes="a"), {"a": 2})


def test_a_file_of_it_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"model_type": "llama", "base_model_tp_plan": LLAMA}))
    by_file = llama().apply(tmp_path / "plan.json", MESH)
    assert by_file.arguments == llama().apply(LLAMA, MESH).arguments


UNSAID = {
    "layers that lie in two ways": (
        {"m.layers.0.up.weight": "tp,.", "m.layers.1.up.weight": ".,tp"},
        "lie in several ways",
    ),
    "a layer that is whole": ({"m.layers.0.up.weight": "tp,.", "m.layers.1.up.weight": ".,."}, "lie in several ways"),
    "a bias that is whole": ({"m.up.weight": "tp,.", "m.up.bias": "."}, "lie in several ways"),
    "two dimensions": ({"m.up.weight": "tp,dp"}, "splits one dimension over 'tp' as a whole"),
    "another axis": ({"m.up.weight": "dp,."}, "splits one dimension over 'tp' as a whole"),
    "a part of an axis": ({"m.up.weight": "tp:(1)2,."}, "splits one dimension over 'tp' as a whole"),
    "a norm": ({"m.norm.weight": "tp"}, "splits weights of linear layers and their biases"),
    "an input": ({"x": "tp,."}, "splits weights of linear layers and their biases"),
    "the first of three dimensions": ({"m.up.weight": "tp,.,."}, "no style splits dimension 0"),
}


@pytest.mark.parametrize("name", UNSAID)
def test_what_it_cannot_say_is_left_out_or_refused(name: str) -> None:
    args, cause = UNSAID[name]
    shapes = {argument: (8,) * (spec.count(",") + 1) for argument, spec in args.items()}
    plan = sharded(program(shapes), MESH, args)
    made = plan.to("tp_plan")
    assert made.content == {}
    assert cause in made.unsaid[0].cause
    with pytest.raises(sw.ShardingError, match="tp_plan cannot say all of the plan") as caught:
        plan.to("tp_plan", strict=True)
    assert cause in str(caught.value)


def test_embeddings_have_styles_of_their_own() -> None:
    plan = program({"m.embed_tokens.weight": (8, 8), "m.wpe.weight": (8, 8)}).shard(
        MESH, {"m.embed_tokens.weight": "tp,.", "m.wpe.weight": ".,tp"}
    )
    assert plan.to("tp_plan", strict=True).content == {
        "m.embed_tokens": "embedding_rowwise",
        "m.wpe": "embedding_colwise",
    }


def test_patterns_fit_the_end_of_names_and_the_more_exact_wins() -> None:
    parts = parts_of("params/model/layers/12/mlp/up/weight")
    assert is_about("mlp.up.weight", parts) == (True, 3)
    assert is_about("layers.*.mlp.up", parts) == (False, 4)
    assert is_about("layers.*.mlp.down", parts) is None
    assert is_about("layers.*", parts) is None
    assert is_about("", parts) is None
    assert most_exact(["up", "layers.*.mlp.up", "up.weight"], parts) == "up.weight"
    assert most_exact(["up", "layers.*.mlp.up"], parts) == "layers.*.mlp.up"
    assert most_exact(["up"], parts, modules=False) is None
