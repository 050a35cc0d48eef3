#!/usr/bin/env bash
# Makes build/oracles, the environment of peers that only tests use, from requirements-oracles.lock.
# Does nothing where it is there already and the lock has not changed since; safe to run at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

home=build/oracles
lock=requirements-oracles.lock
if cmp -s "$lock" "$home/installed.lock" && "$home/bin/python" -c '' 2>/dev/null; then exit 0; fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "oracles: installing torch and torch-mlir into $home (300 MB, once for each change of the lock)"
mkdir -p build
"${VENV:-.venv}/bin/python" -m venv --clear "$home"
# pip takes hashes for all packages or for none, so what has none comes second, with whatever its build asks for.
grep -e '--hash=' "$lock" >"$home/hashed.txt"
grep -v -e '--hash=' -e '^#' "$lock" >"$home/unhashed.txt"
"$home/bin/python" -m pip install --quiet --no-deps --require-hashes -r "$home/hashed.txt"
"$home/bin/python" -m pip install --quiet -r "$home/unhashed.txt"
"$home/bin/python" -c 'import torch, torch_mlir.ir'
cp "$lock" "$home/installed.lock"
