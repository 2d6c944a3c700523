#!/usr/bin/env bash
# Creates a virtual environment with exactly the packages of a lock file, unless it has
# them already. The arguments are its directory and the lock file.
#
# A lock file is generated from the requirements.in beside it, for Python 3.11:
#
#   uv pip compile requirements.in --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 -o requirements.lock
set -euo pipefail
venv=$1 lock=$2
python=${PYTHON:-python3}
"$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' || {
	echo "$0: no Python 3.11 or newer with venv (tried $python): set PYTHON" >&2
	exit 1
}
if ! cmp -s "$lock" "$venv/installed"; then
	"$python" -m venv --clear "$venv"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r "$lock"
	cp "$lock" "$venv/installed"
fi
