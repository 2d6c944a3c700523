#!/usr/bin/env bash
# Checks the templates of the stacks that the tests of infra synthesise, which have every
# option between them, against what CloudFormation accepts in a region of each partition, and
# their roles by another evaluator of IAM's policies.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=bin/cfn-lint templates=bin/templates
tests/venv.sh "$venv" infra/lint/requirements.lock
rm -rf "$templates"
go test -count=1 ./infra -run '^TestTemplate_MatchesGoldenSummary$' -args -templates "$PWD/$templates"
# That one is for an emulator, and has what there is not in every partition.
rm "$templates/local.template.json"
# I3042 finds ARNs that name a partition. Left out is
#   W3005, a dependency that a reference implies: CDK makes a function depend on its role, which it also refers to,
#          together with the role's policies, which it has to.
"$venv/bin/cfn-lint" --regions us-east-1 cn-north-1 us-gov-west-1 --include-checks I3042 --ignore-checks W3005 \
	--template "$templates"/*.template.json
echo "cfn-lint: $(ls "$templates"/*.template.json | wc -l) templates, partitions aws, aws-cn, aws-us-gov"

make -s tests/conformance/peers/node_modules/.package-lock.json
go run ./tests/conformance/peers "$templates"/*.template.json
