#!/usr/bin/env bash
# Lets Schemathesis ask a local stack whatever the OpenAPI document allows, and
# what it does not: no answer is a server's error, undocumented or of another
# shape, and what the document forbids is refused. Seconds and seed are arguments.
#
# Left out are the long poll, which would wait for nobody, and what is planned:
# generated_test.go has both.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=4.32.5
seconds=${1:-120} seed=${2:-$RANDOM}
at=bin/schemathesis
if [ "$("$at/bin/schemathesis" --version 2>/dev/null)" != "schemathesis, version $version" ]; then
	"${PYTHON:-python3}" -m venv --clear "$at"
	"$at/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
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
program=$PWD/$at/bin/schemathesis
cd "$work" # where it leaves what it keeps
"$program" run "${url:?the stack is not ready}/openapi.json" --seed "$seed" --max-time "$seconds" --max-examples 20 \
	--checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection \
	--exclude-path /blackboard/job --exclude-tag planned --request-timeout 30 --continue-on-failure --generation-database none --warnings off
