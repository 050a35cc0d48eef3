"""Figures from files of XLA: descriptions of GPUs, and what collectives took, fitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.cost.collectives import sent_bytes
from shardwright.cost.hardware import sheet_of
from shardwright.cost.hardware.fit import Timed, fit_link
from shardwright.cost.hardware.read import parse_sheet
from shardwright.cost.hardware.textproto import parse_message
from shardwright.cost.hardware.xla_files import completed, figures_from

START, SPEED = 5e-6, 4e11
"""The link that tables of this file are of."""

SPEC = """\
# A GPU of four cores.
gpu_device_info {
  core_count: 4
  memory_bandwidth: 3000000000000
  device_memory_size: 80000000000
  clock_rate_ghz: 1.5
  scalar_unit_description {
    rate_infos { key: 11 value { clock_rate_ghz: 1.5 units_per_core: 128 ops_per_clock: 1 } }
  }
  matrix_unit_description {
    rate_infos { key: 16 value { clock_rate_ghz: 1.25 units_per_core: 4 ops_per_clock: 512 } }
    rate_infos { key: 11 value { clock_rate_ghz: 1.25 units_per_core: 4 ops_per_clock: 256 } }
    rate_infos { key: 12 value { clock_rate_ghz: 1.5 units_per_core: 4 ops_per_clock: 32 } }
    rate_infos { key: 20 value { clock_rate_ghz: 1.25 units_per_core: 4 ops_per_clock: 1024 } }
    rate_infos { key: 28 value { clock_rate_ghz: 1.25 units_per_core: 4 ops_per_clock: 9999 } }
  }
}
platform_name: "CUDA"
device_description_str: "A box"
"""


def entry(kind: str, elements: int, devices: int, seconds: float, dtype: str = "F32") -> str:
    """A collective of a table: `elements` of its result on a device, and what it took."""
    width = {"F32": 4, "BF16": 2}[dtype]
    whole = elements * width * (devices if kind == "reduce-scatter" else 1)
    return f"""
    entries {{
      instruction {{
        name: "_" opcode: "{kind}"
        shape {{ element_type: {dtype} dimensions: {elements} layout {{ minor_to_major: 0 }} is_dynamic_dimension: false }}
        channel_id: 1
        iota_collective_device_list {{ num_replica_groups: {8 // devices} num_devices_per_group: {devices} }}
      }}
      fingerprint: "82724b215353fdf4"
      network_throughput_bytes_per_sec: {round(whole / seconds)}
    }}"""


def took(kind: str, elements: int, devices: int, dtype: str = "F32") -> float:
    """The seconds of a collective on the link."""
    result = elements * {"F32": 4, "BF16": 2}[dtype]
    operand = {"all-gather": result / devices, "reduce-scatter": result * devices}.get(kind, result)
    return START + sent_bytes(kind.replace("-", "_"), operand, result, devices) / SPEED


def table(noise: float = 0.0) -> str:
    kinds = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
    every = []
    for number, (kind, devices, power) in enumerate(
        (k, n, p) for k in kinds for n in (2, 4, 8) for p in range(8, 29, 2)
    ):
        dtype = ("F32", "BF16")[number % 2]
        off = 1 + noise * (-1) ** (number // 2)
        if kind != "collective-permute" or devices == 2:
            every.append(entry(kind, 1 << power, devices, off * took(kind, 1 << power, devices, dtype), dtype))
    return f'entries {{ key: "sm_90_H100" value {{ {"".join(every)} }} }}'


def test_a_link_is_fitted_to_what_collectives_took() -> None:
    figures = figures_from(table(), "table.txtpb").figures
    assert figures["start"].value == pytest.approx(START, rel=1e-3)  # throughputs are whole numbers
    assert figures["link"].value == pytest.approx(SPEED, rel=1e-3)
    assert "143 collectives of sm_90_H100" in figures["link"].source
    assert "table.txtpb: off by 0% in the median" in figures["start"].source


def test_what_is_off_by_a_tenth_either_way_gives_the_same_link_but_for_little() -> None:
    figures = figures_from(table(0.1), "table.txtpb").figures
    assert figures["start"].value == pytest.approx(START, rel=0.06)
    assert figures["link"].value == pytest.approx(SPEED, rel=0.06)


def test_the_fit_by_hand() -> None:
    # two measurements determine both: 3 = s + 100 / v and 5 = s + 300 / v, so that v = 100 and s = 2
    link = fit_link([Timed(100, 3), Timed(300, 5)])
    assert [link.start_seconds, link.bytes_per_second] == pytest.approx([2, 100])
    # of one size twice, 1 s and 2 s: the relative errors of t are (t − 1) and (t / 2 − 1), least at 1.2
    link = fit_link([Timed(0, 1), Timed(0, 2), Timed(1e9, 1e9)])
    assert link.start_seconds == pytest.approx(1.2, rel=1e-6)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "cannot be told apart"),
        ([Timed(100, 3), Timed(100, 4)], "cannot be told apart"),
        ([Timed(100, 5), Timed(300, 3)], "no link is like this"),
        ([Timed(100, 1), Timed(300, 5)], "no link is like this"),
    ],
)
def test_what_no_link_takes_is_refused(times: list[Timed], message: str) -> None:
    with pytest.raises(sw.ShardingError, match=message):
        fit_link(times)


def test_a_description_of_a_gpu_has_its_memory_and_peaks() -> None:
    found = figures_from(SPEC, "spec.txtpb")
    assert found.name == "A box"
    values = {name: figure.value for name, figure in found.figures.items()}
    # cores × units × multiply-adds × clock, two operations each
    assert values == {
        "compute": pytest.approx(2 * 4 * 4 * 512 * 1.25e9),
        "tf32": pytest.approx(2 * 4 * 4 * 256 * 1.25e9),
        "f64": pytest.approx(2 * 4 * 4 * 32 * 1.5e9),
        "f8": pytest.approx(2 * 4 * 4 * 1024 * 1.25e9),
        "f32": pytest.approx(2 * 4 * 128 * 1.5e9),
        "memory": 8e10,
        "memory_traffic": 3e12,
        "copies": 1.5e12,  # each byte is read and written
    }
    assert "XLA's description of A box, spec.txtpb" in found.figures["compute"].source


def test_both_files_make_a_data_sheet_and_one_goes_on_top_of_another() -> None:
    whole = completed(None, [figures_from(SPEC, "spec.txtpb"), figures_from(table(), "table.txtpb")])
    assert whole.name == "A box"
    assert whole.hardware.start_seconds == pytest.approx(START, rel=1e-3)
    assert parse_sheet(whole.text(), "again") == whole
    above = completed(sheet_of("h100"), [figures_from(table(), "table.txtpb")])
    assert above.name == "NVIDIA H100 SXM"
    assert above.figures["compute"] == sheet_of("h100").figures["compute"]
    assert above.figures["link"].value == pytest.approx(SPEED, rel=1e-3)
    with pytest.raises(sw.ShardingError, match="do not say what a device sends"):
        completed(None, [figures_from(SPEC, "spec.txtpb")])


def test_a_table_of_several_devices_wants_the_name_of_one() -> None:
    two = table() + "\n" + table().replace("sm_90_H100", "sm_100_B200")
    with pytest.raises(sw.ShardingError, match="does not say of which device") as caught:
        figures_from(two, "table.txtpb")
    assert caught.value.diagnostic.cause == "it has sm_90_H100, sm_100_B200"
    assert figures_from(two, "table.txtpb", "sm_100_B200").name == "sm_100_B200"
    with pytest.raises(sw.ShardingError, match="no device 'other'"):
        figures_from(two, "table.txtpb", "other")


def test_the_command_prints_a_data_sheet(tmp_path: Path) -> None:
    (tmp_path / "table.txtpb").write_text(table())
    result = CliRunner().invoke(cli, ["hardware", "h100", "--from", str(tmp_path / "table.txtpb")])
    assert result.exit_code == 0, result.output
    (tmp_path / "mine.toml").write_text(result.stdout)
    mine = sw.hardware(tmp_path / "mine.toml")
    assert (mine.name, mine.memory_bytes) == ("NVIDIA H100 SXM", 8e10)
    assert mine.bytes_per_second == pytest.approx(SPEED, rel=1e-3)
    (tmp_path / "spec.txtpb").write_text(SPEC)
    refused = CliRunner().invoke(cli, ["hardware", "--from", str(tmp_path / "spec.txtpb")])
    assert refused.exit_code == 1
    assert "give another file that does, or the name of the hardware" in refused.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1", "f.txtpb: error: neither a description of a GPU nor a table of collectives"),
        ("", "f.txtpb: error: neither"),
        ('entries { key: "a" value { } }', "f.txtpb: error: the table has no collective of a"),
        ("entries { }", "f.txtpb: error: the table does not say of which device"),
        ("gpu_device_info {\n  core_count 4 }", "f.txtpb:2:14: error: malformed text proto\n  why:    expected ':'; got '4'"),
        ("a { b: 1", "f.txtpb:1:9: error: malformed text proto"),
        ("a: [1, 2", "f.txtpb:1:9: error: malformed text proto"),
        ("a: }", "f.txtpb:1:4: error: malformed text proto\n  why:    expected a value; got '}'"),
        ("a: 1.2.3", "f.txtpb:1:4: error: malformed text proto\n  why:    expected a number"),
        ("4: 1", "f.txtpb:1:1: error: malformed text proto\n  why:    expected the name of a field"),
        ("a: ", "f.txtpb:1:4: error: malformed text proto"),
        ("a {" * 2000, "f.txtpb:1:304: error: malformed text proto\n  why:    nested too deeply"),
        ("\0", "f.txtpb:1:1: error: malformed text proto"),
    ],
)  # fmt: skip
def test_other_text_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(sw.ShardingError) as caught:
        figures_from(text, "f.txtpb")
    assert str(caught.value).startswith(said)


def test_forms_of_the_text_format() -> None:
    text = "a: -1 # one\nb: 0x1F, c: 'it' \"'s\\n\";d <e: true> f { } g: [1.5e-3, -inf] g: 2f h [{i: X}, {}]\n# the end"
    assert parse_message(text, "t") == {
        "a": [-1], "b": [31], "c": ["it's\n"], "d": [{"e": ["true"]}], "f": [{}],
        "g": [0.0015, float("-inf"), 2.0], "h": [{"i": ["X"]}, {}],
    }  # fmt: skip
