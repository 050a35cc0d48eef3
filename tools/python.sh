# Which Python to use; sourced by the other scripts. JAX is the version of jax, empty for that of requirements.lock.

lowest=3.11
if [ -n "${JAX:-}" ] && [ "$JAX" != 0.10 ]; then lowest=3.12; fi # what jax 0.11 and newer ask for
too_new=3.15 # the locked jaxlibs have no wheels from here on

supported() { # supported PYTHON: does it run, with a version we support?
    "$1" -c "import sys; low, high = (tuple(map(int, v.split('.'))) for v in ('$lowest', '$too_new')); \
sys.exit(not low <= sys.version_info[:2] < high)" >/dev/null 2>&1
}

makes_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

located() { # located NAME: what to call; pyenv has versions that `python3.12` does not start
    local prefix
    if ! "$1" -c '' >/dev/null 2>&1 && prefix=$(pyenv prefix "${1#python}" 2>/dev/null); then
        echo "$prefix/bin/python"
    else
        echo "$1"
    fi
}

find_python() { # find_python TEST…: the first candidate that passes every test
    local candidate test
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        candidate=$(located "$candidate")
        for test in "$@"; do "$test" "$candidate" || continue 2; done
        echo "$candidate"
        return 0
    done
    return 1
}
