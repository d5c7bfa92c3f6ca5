#!/bin/sh
# Print the first Python on PATH that can make the environment: 3.11 or newer, with venv and pip.
# 3.11 comes first because constraints.txt was made with it. `make PYTHON=...` overrides the search.
set -u

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    if usable "$PYTHON"; then
        echo "$PYTHON"
        exit 0
    fi
    echo "PYTHON=$PYTHON is not a Python 3.11 or newer with venv and ensurepip." \
        "Name another one, or leave PYTHON out to search PATH." >&2
    exit 1
fi

for name in python3.11 python3.12 python3.13 python3.14 python3 python; do
    # Every match on PATH, not only the first: a shim may name a version that is not installed.
    for folder in $(echo "$PATH" | tr ':' ' '); do
        if [ -x "$folder/$name" ] && usable "$folder/$name"; then
            echo "$folder/$name"
            exit 0
        fi
    done
done

echo "No Python 3.11 or newer with venv and ensurepip was found on PATH." \
    "Install one (Debian: python3 and python3-venv) or name it: make PYTHON=/path/to/python3." >&2
exit 1
