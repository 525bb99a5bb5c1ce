#!/bin/sh
# Creates .venv with the locked packages. `make setup` calls it if a lock, pyproject.toml or the directory changed.
set -eu

place="${1:?expected the directory of the clone}"
cd "$place"
python="${PYTHON:-python3}"
venv=.venv
ready="$venv/.ready"
as_ci_root=no
if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then as_ci_root=yes; fi

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

check_python() {
    command -v "$python" >/dev/null 2>&1 ||
        fail "'$python' was not found. Install Python 3.11 or later, or select one: make setup PYTHON=/path/to/python3"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "'$python' is $("$python" -V 2>&1), but 3.11 or later is required. Select one: make setup PYTHON=python3.12"
}

check_venv_module() {
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    [ "$as_ci_root" = yes ] ||
        fail "'$python' has no venv module. On Debian and Ubuntu: sudo apt-get install $package"
    apt-get update -qq && apt-get install -y -qq "$package"
}

# The first line of a console script contains the directory, so a moved .venv is recreated.
create_venv() {
    options=
    if [ -f "$ready" ] && [ "$(cat "$ready")" != "$place" ]; then options=--clear; fi
    rm -f "$ready"
    "$python" -m venv $options "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
}

uv_pip() {
    "$venv/bin/uv" pip "$@" --quiet --python "$venv/bin/python"
}

# Offline first: uv uses a cached PySpark, but might rebuild it if it asks the index.
sync() {
    uv_pip sync --compile-bytecode --offline --require-hashes "$@" 2>/dev/null ||
        uv_pip sync --compile-bytecode --require-hashes "$@"
}

check_python
check_venv_module
printf 'setup: updating .venv (the first time takes a minute or two)\n'
create_venv
# The lock includes a Java runtime, for machines without one and for the test of that runtime.
sync requirements/dev.lock
# hatchling is in the lock, so building headwater needs no index.
uv_pip install --offline --no-deps --no-build-isolation --editable .
# Commands start twice as fast, even if PYTHONDONTWRITEBYTECODE is set.
"$venv/bin/python" -m compileall -q src
printf '%s\n' "$place" >"$ready"
