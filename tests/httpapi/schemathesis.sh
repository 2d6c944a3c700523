#!/usr/bin/env bash
# Runs Schemathesis against a local stack, with requests that the OpenAPI document allows
# and requests that it does not. No answer may be a server error or undocumented, and
# requests that the document does not allow must be rejected. The arguments are the
# duration in seconds and the seed.
#
# Without the long poll, which would only wait, and the planned routes: generated_test.go
# has both.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=4.32.5
seconds=${1:-120} seed=${2:-$RANDOM}
venv=bin/schemathesis
if [ "$("$venv/bin/schemathesis" --version 2>/dev/null)" != "schemathesis, version $version" ]; then
	"${PYTHON:-python3}" -m venv --clear "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi
work=$(mktemp -d)
bin/lockstep dev --port 0 --no-worker --quiet >"$work/out" &
stack=$!
trap 'kill $stack; wait $stack || true; rm -rf "$work"' EXIT
for _ in $(seq 300); do
	url=$(sed -n 's/^ready //p' "$work/out")
	[ -n "$url" ] && break
	sleep 0.1
done
program=$PWD/$venv/bin/schemathesis
cd "$work" # where it writes its files
"$program" run "${url:?the stack is not ready}/openapi.json" --seed "$seed" --max-time "$seconds" --max-examples 20 \
	--checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection \
	--exclude-path /blackboard/job --exclude-tag planned --request-timeout 30 --continue-on-failure --generation-database none --warnings off
