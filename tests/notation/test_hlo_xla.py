"""`mhlo.sharding` as XLA itself has it, in a process of its own: canonical text, and what each device holds."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from shardwright.mesh import Mesh
from shardwright.notation.hlo.sharding import named_hlo, parse_hlo, print_sharding
from shardwright.sharding import TensorSharding
from tests.notation.test_hlo_properties import random_sharding

pytestmark = pytest.mark.oracle

DEVICES = 48

WORKER = """
import json, sys
import jax, numpy as np
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import Mesh, NamedSharding, PartitionSpec

def held(sharding, shape):
    slices = sharding.devices_indices_map(tuple(shape)).items()
    return {d.id: [[s.indices(n)[0], s.indices(n)[1]] for s, n in zip(index, shape)] for d, index in slices}

def answer(ask):
    if "spec" in ask:
        devices = np.array(jax.devices()[: len(ask["ids"])])[ask["ids"]].reshape(ask["sizes"])
        sharding = NamedSharding(Mesh(devices, ask["names"]), PartitionSpec(*map(tuple, ask["spec"])))
        return str(sharding._to_xla_hlo_sharding(len(ask["shape"]))), held(sharding, ask["shape"])
    hlo = xla_client.HloSharding.from_string(ask["text"])
    hlo = xla_client.HloSharding.from_string(str(hlo))  # once is not always enough to drop every idle subgroup
    devices = ask.get("devices")
    return str(hlo), devices and held(GSPMDSharding(jax.devices()[:devices], hlo), ask["shape"])

print(json.dumps([answer(ask) for ask in json.load(sys.stdin)]))
"""


def ask_xla(questions: list[dict[str, Any]]) -> list[Any]:
    flags = f"--xla_force_host_platform_device_count={DEVICES}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    for missing in ("ImportError", "ModuleNotFoundError", "AttributeError"):
        if missing in done.stderr:
            pytest.skip(f"this jax has no HloSharding to ask: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answers, list)
    return answers


def held(sharding: TensorSharding, shape: tuple[int, ...]) -> dict[str, list[list[int]]]:
    mesh = sharding.mesh
    return {
        str(mesh.device_id(position)): [[s.start, s.stop] for s in sharding.device_slice(shape, position)]
        for position in range(mesh.size)
    }


def even(sharding: TensorSharding, rng: random.Random) -> tuple[int, ...]:
    return tuple(math.prod(axis.size for axis in dim.axes) * rng.randint(1, 3) for dim in sharding.dims)


def test_xla_prints_our_text_and_gives_each_device_the_same_slice(
    record_property: Callable[[str, object], None],
) -> None:
    rng = random.Random(7)
    cases: list[tuple[TensorSharding, tuple[int, ...]]] = []
    while len(cases) < 1500:
        sharding, _ = random_sharding(rng, DEVICES)
        cases.append((sharding, even(sharding, rng)))
    questions: list[dict[str, Any]] = []
    for sharding, shape in cases:
        devices = 0 if sharding.partial else sharding.mesh.size
        questions.append({"text": print_sharding(sharding), "shape": shape, "devices": devices})
    compared = 0
    for (sharding, shape), question, (text, slices) in zip(cases, questions, ask_xla(questions), strict=True):
        assert text == question["text"]
        if question["devices"]:
            assert slices == held(sharding, shape), text
            compared += 1
    assert compared >= 300
    record_property("summary", f"mhlo: XLA prints {len(cases)} random shardings as we do, slices of {compared} agree")


def test_jax_named_shardings_print_as_ours(record_property: Callable[[str, object], None]) -> None:
    rng = random.Random(8)
    cases: list[tuple[TensorSharding, tuple[int, ...]]] = []
    questions: list[dict[str, Any]] = []
    while len(cases) < 400:
        sizes = [rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4))]
        total = math.prod(sizes)
        if not 1 < total <= DEVICES:
            continue
        names = list("wxyz"[: len(sizes)])
        ids = list(range(total)) if rng.random() < 0.6 else rng.sample(range(total), total)
        spec: list[list[str]] = [[] for _ in range(rng.randint(1, 3))]
        for name in rng.sample(names, len(names)):
            if rng.random() < 0.6:
                rng.choice(spec).append(name)
        sharding = TensorSharding.of(Mesh(list(zip(names, sizes, strict=True)), device_ids=ids), spec)
        cases.append((sharding, even(sharding, rng)))
        questions.append({"sizes": sizes, "names": names, "ids": ids, "spec": spec, "shape": cases[-1][1]})
    for (sharding, shape), (text, slices) in zip(cases, ask_xla(questions), strict=True):
        assert slices == held(sharding, shape)
        if sharding.mesh.device_ids is None:  # jax numbers devices as the mesh has them
            assert text == print_sharding(sharding)
    record_property("summary", f"mhlo: {len(cases)} NamedShardings of JAX have our text and slices")


def test_xla_keeps_the_same_canonical_form() -> None:
    rng = random.Random(9)
    texts: list[str] = []
    for _ in range(2000):
        reshape = [rng.choice([1, 2, 2, 3, 4]) for _ in range(rng.randint(2, 4))]
        perm = rng.sample(range(len(reshape)), len(reshape))
        total = math.prod(reshape)
        tile = rng.sample(reshape, len(reshape))
        groups = rng.choices(["replicated", "manual", "unreduced"], k=rng.randint(0, len(tile) - 1))
        tail = f" last_tile_dims={{{', '.join(groups)}}}" if groups else ""
        order = f"<=[{','.join(map(str, reshape))}]T({','.join(map(str, perm))})"
        if rng.random() < 0.4 and total > 1:
            order = ",".join(map(str, rng.sample(range(total), total)))
        texts.append(f"{{devices=[{','.join(map(str, tile))}]{order}{tail}}}")
    for text, (printed, _) in zip(texts, ask_xla([{"text": text} for text in texts]), strict=True):
        assert str(parse_hlo(text).canonical()) == printed, text


def test_xla_reads_our_named_form() -> None:
    rng = random.Random(10)
    texts: list[str] = []
    while len(texts) < 200:
        sharding, _ = random_sharding(rng, DEVICES)
        if sharding.mesh.size > 1 and sharding.dims:
            texts.append(str(named_hlo(sharding)))
    for text, (printed, _) in zip(texts, ask_xla([{"text": text} for text in texts]), strict=True):
        assert printed == text
