#!/usr/bin/env bash
# Makes .venv and puts the locked dependencies and this package (editable) into it.
# Called by the Makefile whenever requirements.lock or pyproject.toml has changed; safe to run at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lowest=3.11
too_new=3.15 # the locked jaxlib has no wheels from here on

supported() { # supported PYTHON: does it run, with a version we support?
    "$1" -c "import sys; low, high = (tuple(map(int, v.split('.'))) for v in ('$lowest', '$too_new')); \
sys.exit(not low <= sys.version_info[:2] < high)" >/dev/null 2>&1
}

makes_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

find_python() { # find_python TEST…: the first candidate that passes every test
    local candidate test
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        for test in "$@"; do "$test" "$candidate" || continue 2; done
        echo "$candidate"
        return 0
    done
    return 1
}

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
            "no Python >= $lowest and < $too_new that can make virtual environments was found." \
            "Install one with its venv module (Debian, Ubuntu: apt-get install python3 python3-venv)," \
            "or name one that you have: make ${MAKECMDGOALS:-test} PYTHON=/path/to/python3.12"
    fi
    echo "setup: creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

if ! supported .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then create_venv; fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "setup: installing the locked dependencies (once for each change of the lock)"
.venv/bin/python -m pip install --quiet --require-hashes -r requirements.lock
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
