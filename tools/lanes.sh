#!/usr/bin/env bash
# Runs the tests of every lane, lanes.sh LANE…, each a Python and a jax (python3.12-jax0.11) in an environment of its
# own. A lane whose Python is not on this machine says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

summary=()
failed=0
for lane in "$@"; do
    python=${lane%-jax*}
    jax=${lane#*-jax}
    if ! (PYTHON=$python JAX=$jax && . tools/python.sh && find_python supported makes_venvs) >/dev/null; then
        summary+=("$lane: left out: no $python that makes environments on this machine")
    elif "${MAKE:-make}" --no-print-directory unit PYTHON="$python" JAX="$jax"; then
        summary+=("$lane: passed")
    else
        summary+=("$lane: failed")
        failed=1
    fi
done
printf 'lane %s\n' "${summary[@]}"
exit $failed
