#!/bin/sh
# Makes a virtual environment anew and fills it from requirement files:
#
#     tools/environment.sh FOLDER FILE...
#
# A *.lock file is installed with its hashes required, any other file without. $PYTHON chooses the interpreter;
# when it is empty the first Python >= 3.11 on the path is taken.
set -eu

folder=$1
shift

fail() {
    printf 'error: %s\n' "$@" >&2
    exit 1
}

recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=${PYTHON:-}
if [ -n "$python" ]; then
    command -v "$python" >/dev/null 2>&1 || fail "PYTHON=$python is not a command"
    recent "$python" || fail "PYTHON=$python is $("$python" --version 2>&1); Python 3.11 or newer is needed"
else
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if recent "$candidate"; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || fail \
        "no Python 3.11 or newer found; python3 is $(python3 --version 2>&1 || true)" \
        "install one and name it: make PYTHON=/path/to/python3.12 ..."
fi

"$python" -c 'import venv, ensurepip; ensurepip.version()' >/dev/null 2>&1 || fail \
    "$("$python" --version) lacks its venv module" \
    "on Debian and Ubuntu: apt-get install python3-venv"

printf '%s: a new environment, %s\n' "$folder" "$("$python" --version)"
"$python" -m venv --clear "$folder"
for file in "$@"; do
    printf '%s: installing %s\n' "$folder" "$file"
    case $file in
        *.lock) hashes=--require-hashes ;;
        *) hashes= ;;
    esac
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check $hashes -r "$file"
done
