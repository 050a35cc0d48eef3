#!/usr/bin/env bash
# Makes the environment $VENV (.venv) and puts the dependencies of $LOCK (requirements.lock) and this package (editable)
# into it. Called by the Makefile whenever the lock or pyproject.toml has changed; safe to run at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. tools/python.sh

VENV=${VENV:-.venv}
LOCK=${LOCK:-requirements.lock}

install_system_packages() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then return 1; fi
    echo "setup: installing system packages: $*"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

give_up() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

create_venv() {
    local python name
    if ! python=$(find_python supported makes_venvs); then
        if python=$(find_python supported); then
            name=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        else
            name="python3-venv"
        fi
        # A distribution may call it by either name, or have put another Python first on the path.
        install_system_packages "$name" || install_system_packages python3 python3-venv || true
        python=$(find_python supported makes_venvs) || give_up \
            "no Python >= $lowest and < $too_new that can make virtual environments was found${PYTHON:+: tried $PYTHON}." \
            "Install one with its venv module (Debian, Ubuntu: apt-get install python3 python3-venv)," \
            "or name one that you have: make ${MAKECMDGOALS:-test} PYTHON=/path/to/python3.12"
    fi
    echo "setup: creating $VENV with $("$python" --version)"
    mkdir -p "$(dirname "$VENV")"
    "$python" -m venv --clear "$VENV"
}

version() { "$1" -c 'import sys; print(sys.version_info[:2])' 2>/dev/null; }

is_asked_for() { # is_asked_for PYTHON: is it of the version of $PYTHON, where that is given?
    [ -z "${PYTHON:-}" ] || [ "$(version "$1")" = "$(version "$(located "$PYTHON")")" ]
}

if ! supported "$VENV/bin/python" || ! is_asked_for "$VENV/bin/python" ||
    ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then create_venv; fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "setup: installing the locked dependencies (once for each change of the lock)"
"$VENV/bin/python" -m pip install --quiet --require-hashes -r "$LOCK"
"$VENV/bin/python" -m pip install --quiet --no-deps --no-build-isolation -e .
