#!/usr/bin/env bash
# Resolves anew what goes with a jax: lock.sh 0.12.0.1. One package a line, name==version and hashes: no index, no address, no path
# of any machine. The lowest Python that this jax runs on resolves: what it takes, newer ones take too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$1
JAX=$(cut -d. -f1,2 <<<"$version")
. tools/python.sh
lock=requirements$([ "$JAX" = 0.10 ] || echo "-jax$JAX").lock

PYTHON=python$lowest
if ! python=$(find_python supported makes_venvs); then
    echo "$lock: left as it is: jax $version is resolved by Python $lowest, which is not here" >&2
    exit 1
fi

home=build/lock-python$lowest
if [ ! -x "$home/bin/pip-compile" ]; then
    mkdir -p build
    "$python" -m venv --clear "$home"
    "$home/bin/python" -m pip install --quiet pip-tools
fi
"$home/bin/pip-compile" pyproject.toml --quiet --upgrade --extra dev --build-deps-for editable \
    --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate --no-emit-options \
    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
    --upgrade-package "jax==$version" --upgrade-package "jaxlib==$version" \
    --output-file build/requirements.txt
sed -e ':join' -e '/\\$/{N;s/ *\\\n */ /;b join' -e '}' build/requirements.txt |
    grep -E '^[A-Za-z0-9_.-]+==[^ ]+( --hash=sha256:[0-9a-f]{64})+$' >"$lock"
echo "$lock: $(wc -l <"$lock") packages"
