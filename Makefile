# Everything there is to do here. `make help` says what.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# All but the race detector builds in the same way, so that every package is compiled once.
export CGO_ENABLED := 0
export GOFLAGS     := $(GOFLAGS) -trimpath

FUNCTIONS := api lifecycle observer sweeper worker
# What is deployed is told apart by its commit, what stays on this machine is not.
RELEASE   := $(or $(VERSION),$(shell git describe --tags --always --dirty 2>/dev/null),dev)
VERSION   ?= dev
LINK      := -s -w -X github.com/lockstep-run/lockstep/shared/boot.Version=$(VERSION)
NPM_DONE  := localstack/node_modules/.package-lock.json
MONITOR   := shared/monitor/app
MONITOR_DONE := $(MONITOR)/node_modules/.package-lock.json
BROWSER   := tests/browser
BROWSER_DONE := $(BROWSER)/node_modules/.package-lock.json
OTHERS    := tests/conformance/peers
OTHERS_DONE := $(OTHERS)/node_modules/.package-lock.json
GENERATED := docs/lifecycle docs/configuration.md docs/cli.md docs/codes.md docs/definition.schema.json docs/test.schema.json shared/api/gen shared/api/openapi $(MONITOR)/src/lifecycle.gen.ts shared/monitor/page

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## Run the fleet upgrade and its failure on this machine, and judge both on the devices
	bin/fleet-demo

dev: build ## Run the whole system on port 3030 with the example worker, until Ctrl-C
	bin/fleet-demo --serve

build: npm ## Build the command, the functions and the examples into bin
	@mkdir -p bin/functions
	@install -m 755 localstack/node_modules/@dynoxide/linux-x64/dynoxide bin/dynoxide 2>/dev/null || \
		echo "no ready-made local DynamoDB for this system: see the README"
	go build -ldflags '$(LINK) -X main.version=$(VERSION)' -o bin/ ./cmd/lockstep ./examples/fleet/cmd/...
	@for f in $(FUNCTIONS); do \
		echo "build functions/$$f"; \
		go build -tags lambda.norpc -ldflags '$(LINK)' -o bin/functions/$$f/bootstrap ./functions/$$f || exit 1; \
	done

# What AWS runs is the same byte for byte wherever it is built as the same version: no
# path and no time gets in, and of the working tree nothing but what git calls it. That
# is written beside the functions too, for the deployment to be tagged with.
DIST       := dist
DIST_ARCH  := arm64
DIST_BUILD  = GOOS=linux GOARCH=$(DIST_ARCH) go build -tags lambda.norpc -buildvcs=false -ldflags '$(subst boot.Version=$(VERSION),boot.Version=$(RELEASE),$(LINK))'

RELEASE_BUILD = go build -buildvcs=false -ldflags '$(subst boot.Version=$(VERSION),boot.Version=$(RELEASE),$(LINK)) -X main.version=$(RELEASE)'

dist: ## Build the functions for AWS (linux/arm64) into dist as VERSION=text, with their hashes and their bill of materials
	@rm -f $(DIST)/functions/VERSION
	@for f in $(FUNCTIONS); do \
		$(DIST_BUILD) -o $(DIST)/functions/$$f/bootstrap ./functions/$$f || exit 1; \
	done
	@echo '$(RELEASE)' > $(DIST)/functions/VERSION
	@cd $(DIST) && sha256sum functions/*/bootstrap > SHA256SUMS && cat SHA256SUMS
	@go run ./tests/dist/cmd/release -sbom -root $(DIST) $(DIST)/functions > $(DIST)/sbom.cdx.json

dist-check: dist ## Build the functions again elsewhere, and fail if a byte differs
	@rm -rf $(DIST)/again && mkdir -p $(DIST)/again/source
	@git ls-files -z -- go.mod go.sum functions shared statemachines | xargs -0 cp --parents -t $(DIST)/again/source
	@cd $(DIST)/again/source && for f in $(FUNCTIONS); do \
		$(DIST_BUILD) -o ../functions/$$f/bootstrap ./functions/$$f || exit 1; \
	done
	@cd $(DIST)/again && sha256sum -c ../SHA256SUMS && rm -rf ../again

npm: $(NPM_DONE)

$(NPM_DONE) $(MONITOR_DONE) $(BROWSER_DONE) $(OTHERS_DONE): %/node_modules/.package-lock.json: %/package-lock.json
	npm ci --prefix $* --no-audit --no-fund --silent
	@touch $@

# Packages whose tests do not run under the race detector, because nothing in them runs at the
# same time as something else, or because they drive binaries that were built without it, or
# compile the CDK, or send thousands of requests one after the other. The worlds of shared/engine,
# tests/protocol and tests/sim/simulator have one goroutine each; of the last, one test with two
# worlds at a time runs under the race detector, which makes it eight times as slow.
NO_RACE := /shared/(definition|engine|expr|lifecycle|workflow)$$|/shared/definition/schema|/shared/engine/planner|/statemachines|/shared/workflowtest|/cmd/lockstep$$|/tests/(architecture|protocol|sim/mutation|sim/simulator)|/examples/definitions
NO_RACE_ALONE := /infra|/examples/cdk|/tests/dist|/tests/e2e|/tests/bench|/tests/chaos|/tests/httpapi|/tests/localstack

test: build generate-check ## Run every test that needs no cloud account
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	CGO_ENABLED=1 go test -race $$(go list ./... | grep -Ev '$(NO_RACE)|$(NO_RACE_ALONE)')
	CGO_ENABLED=1 go test -race -run Deterministic ./tests/sim/simulator
	go test $$(go list ./... | grep -E '$(NO_RACE)')
	go test -count=1 ./tests/e2e/...
	go test -count=1 ./tests/chaos
	go test ./tests/httpapi
	go test ./infra/... ./examples/cdk/... ./tests/dist ./tests/bench/...

# The apps, functions and workers that tests/localstack deploys, for this machine.
SCENARIOS      := bin/scenarios
SCENARIO_BUILD := go build -tags lambda.norpc

test-localstack: build ## Deploy the real stack into LocalStack and run the end-to-end tests on it (needs Python 3.13 or Docker)
	@mkdir -p $(SCENARIOS)
	go build -o $(SCENARIOS)/ ./infra/cmd/infra ./tests/localstack/app
	$(SCENARIO_BUILD) -ldflags '$(LINK)' -o $(SCENARIOS)/fleet/bootstrap ./examples/fleet/cmd/fleet-worker
	$(SCENARIO_BUILD) -ldflags '$(LINK)' -o $(SCENARIOS)/faulty/bootstrap ./tests/localstack/faulty
	@for f in $(FUNCTIONS); do \
		$(SCENARIO_BUILD) -ldflags '$(subst boot.Version=$(VERSION),boot.Version=next,$(LINK))' -o $(SCENARIOS)/next/$$f/bootstrap ./functions/$$f || exit 1; \
	done
	LOCKSTEP_E2E=localstack go test -count=1 -timeout 30m -parallel 8 -v ./tests/localstack

test-browser: build $(BROWSER_DONE) ## Test the monitor in Chromium against a local stack (needs Debian's package chromium, or its path in CHROMIUM)
	cd $(BROWSER) && node --test --test-concurrency=1

screenshots: build $(BROWSER_DONE) ## Take the pictures of the monitor in docs/images, in Chromium
	node $(BROWSER)/screenshots.mjs docs/images

test-fast: ## Run the tests that need neither binaries nor the CDK
	go test $$(go list ./shared/... ./statemachines/... ./functions/... ./cmd/... | grep -v node_modules)

generate: $(MONITOR_DONE) ## Regenerate everything that is generated
	go generate ./statemachines/... ./shared/config/... ./shared/definition/... ./shared/api/...
	@go test ./shared/api -run TestExamples -update >/dev/null && go -C shared/api/openapi run generate_json.go
	npm run build --prefix $(MONITOR) --silent
	@go test ./cmd/lockstep -run TestReference -update >/dev/null
	@go test ./tests/architecture -run TestCodesPage -update >/dev/null
	@go test ./shared/workflowtest -run TestSchema -update >/dev/null

generate-check: ## Fail if something generated is out of date
	@$(MAKE) --no-print-directory generate
	@git diff --exit-code --stat -- $(GENERATED) || { echo "generated files were out of date: commit what make generate wrote"; exit 1; }

# A release has the command with what it needs to run the whole system (on Windows there is
# only the client), the functions for apps of other teams, and a template with its functions
# for those who use neither Go nor CDK.
PLATFORMS     := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
RELEASE_ARCHS := arm64 amd64
PACKAGES      := $(DIST)/packages
ASSEMBLY      := $(DIST)/assembly
# The local DynamoDB, which npm has for this system alone.
DYNOXIDE      := localstack/node_modules/@dynoxide/linux-x64

release: npm $(MONITOR_DONE) ## Build a release of this commit's tag into dist/release: archives, template, hashes, bill of materials, notes; signed with the SSH key in the file LOCKSTEP_RELEASE_KEY. VERSION=v1.2.3 TRIAL=1 packs any working tree, unsigned
	@go run ./tests/dist/cmd/release -check $(if $(TRIAL),-trial) -version '$(RELEASE)'
	@[ -x $(DYNOXIDE)/dynoxide ] || { echo "no $(DYNOXIDE)/dynoxide, which the archive for linux/amd64 contains: make the release on linux/amd64, where npm installs it"; exit 1; }
	@rm -rf $(PACKAGES) $(ASSEMBLY)
	@for platform in $(PLATFORMS); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		dir=$(PACKAGES)/lockstep_$(RELEASE)_$${GOOS}_$$GOARCH; suffix=; programs="$(FUNCTIONS)"; \
		if [ $$GOOS = windows ]; then dir=$$dir.zip; suffix=.exe; programs=; fi; \
		echo "build $$platform"; mkdir -p $$dir && cp LICENSE README.md CHANGELOG.md $$dir/ || exit 1; \
		$(RELEASE_BUILD) -o $$dir/lockstep$$suffix ./cmd/lockstep || exit 1; \
		for f in $$programs; do $(RELEASE_BUILD) -tags lambda.norpc -o $$dir/functions/$$f/bootstrap ./functions/$$f || exit 1; done; \
		if [ $$platform = linux/amd64 ]; then \
			install -m 755 $(DYNOXIDE)/dynoxide $$dir/ && GOOS= GOARCH= go run ./tests/dist/cmd/release -npm $(DYNOXIDE) -notice dynoxide > $$dir/NOTICE || exit 1; \
		fi; \
	done
	@for arch in $(RELEASE_ARCHS); do \
		dir=$(PACKAGES)/lockstep-functions_$(RELEASE)_$$(echo $$arch | sed s/amd64/x86_64/); \
		$(MAKE) --no-print-directory -s dist DIST=$(DIST)/$$arch DIST_ARCH=$$arch VERSION=$(RELEASE) >/dev/null && rm -rf $$dir && cp -r $(DIST)/$$arch/functions $$dir || exit 1; \
	done
	@go run ./infra/cmd/infra -functions $(DIST)/$(firstword $(RELEASE_ARCHS))/functions -architecture $(subst amd64,x86_64,$(firstword $(RELEASE_ARCHS))) \
		-assets-prefix lockstep/$(RELEASE)/ -out $(ASSEMBLY) >/dev/null
	@go build -o $(DIST)/pack ./tests/dist/cmd/release
	@for dir in $(PACKAGES)/*/; do $(DIST)/pack -licences $(MONITOR) -npm $(DYNOXIDE) $$dir > $(DIST)/licences && mv $(DIST)/licences $$dir/THIRD_PARTY_LICENSES || exit 1; done
	@$(DIST)/pack -sbom -root $(PACKAGES) -npm $(DYNOXIDE) $(PACKAGES)/* > $(DIST)/sbom.cdx.json
	@mv $(DIST)/sbom.cdx.json $(PACKAGES)/lockstep_$(RELEASE).sbom.cdx.json
	@$(DIST)/pack $(if $(TRIAL),-trial) -version '$(RELEASE)' -assembly $(ASSEMBLY) -out $(DIST)/release $(PACKAGES)/*

synth: dist ## Write the CloudFormation template of stage prod to infra/cdk.out
	@rm -rf infra/cdk.out
	CDK_OUTDIR=infra/cdk.out go run ./infra/cmd/infra

conformance-peers: build $(OTHERS_DONE) ## Run the tests of tests/conformance against moto, dynalite and ElasticMQ as well, and print where they differ (needs Python 3.11, Java and Maven)
	tests/venv.sh bin/peers/moto $(OTHERS)/requirements.lock
	mvn -q -B -f $(OTHERS)/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/bin/peers/elasticmq
	go run ./$(OTHERS)

lint-template: ## Check the CloudFormation templates with cfn-lint for the partitions aws, aws-cn and aws-us-gov, and their roles with another evaluator of IAM (needs Python 3.11 and Node)
	infra/lint/lint.sh

mutations: ## Make each deliberate mistake in turn and find it by JUDGE=simulation in SEEDS=4000 seeds, or by JUDGE=protocol
	go run ./tests/sim/cmd/mutations -seeds $(or $(SEEDS),4000) -judge $(or $(JUDGE),simulation)

chaos: build ## Kill everything at random for MINUTES=5 with SEED=n while CROWD=100 wait for one device, judge by the logs of devices and blocks, print figures; EVENTS=1 compares what a webhook is told with the histories
	go test -count=1 -timeout 0 -v -run TestChaos_NoWorkIsLostOrRepeated ./tests/chaos -args -minutes $(or $(MINUTES),5) -seed $(or $(SEED),$$RANDOM) -crowd $(or $(CROWD),100) $(if $(EVENTS),-events)

model: ## Check the models of the protocols with Spin: BOUNDS=small, default or large, ONLY=text
	@go build -o bin/models ./tests/models
	@bin/models -bounds $(or $(BOUNDS),default) -only '$(ONLY)'

simulate: ## Simulate SEEDS=2000 seeds from FROM=0 or FROM=commit on, or print the steps of one: SEED=n, shortened by CUT; SMALL=1 with small bounds
	@$(if $(SMALL),go run ./tests/sim/cmd/mutations -small bin/_small)
	@go build $(if $(SMALL),-overlay bin/_small/overlay.json) -o bin/simulate ./tests/sim/cmd/simulate
	@bin/simulate $(if $(SMALL),-small) $(if $(SEED),-seed $(SEED) -cut '$(CUT)',-seeds $(or $(SEEDS),2000) -from $(if $(filter commit,$(FROM)),$$((16#$$(git rev-parse HEAD | cut -c1-7))),$(or $(FROM),0)))

fuzz-http: build ## Fuzz a local stack by its OpenAPI document with Schemathesis, SECONDS=120 SEED=n (needs Python)
	tests/httpapi/schemathesis.sh $(or $(SECONDS),120) $(SEED)

bench: build ## Run the benchmarks, over ENTITIES=1000 and with LATENCY=5ms for each request to AWS; CALLS=1 prints those of one execution, TIMES=1 measures the functions alone, STARTS=10000,30000 executions over that many devices, CANCEL=100000 one over that many devices of 1 KB that is cancelled half-way, both with ATTRIBUTES=32000 bytes of each, STEPS=1000 one with that many step runs, FAILURES=10000 three over that many devices of which none, 5% and 50% fail; PEERS=1 does the same work in turn with another engine; one line `name value unit` a figure
	$(if $(PEERS),npm ci --prefix tests/bench/peers --ignore-scripts --no-audit --no-fund --silent)
	go run ./tests/bench $(if $(PEERS),-peers tests/bench/peers) $(if $(LATENCY),-latency $(LATENCY)) $(if $(ENTITIES),-devices $(ENTITIES)) $(if $(CALLS),-calls) $(if $(TIMES),-functions) $(if $(STARTS),-starts $(STARTS)) $(if $(CANCEL),-cancel $(CANCEL)) $(if $(ATTRIBUTES),-attributes $(ATTRIBUTES)) $(if $(STEPS),-step-runs $(STEPS)) $(if $(FAILURES),-failures $(FAILURES))

lint-api: $(MONITOR_DONE) ## Check the OpenAPI document by Redocly's rules
	node $(MONITOR)/lint-api.mjs

lint: bin/tools/golangci-lint lint-api ## Run the linters
	bin/tools/golangci-lint run ./...

bin/tools/golangci-lint:
	GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

clean: ## Remove what was built
	rm -rf bin dist infra/cdk.out examples/cdk/cdk.out examples/cdk/dist localstack/node_modules $(MONITOR)/node_modules $(BROWSER)/node_modules $(OTHERS)/node_modules

.PHONY: help demo dev build dist dist-check npm test test-localstack test-browser screenshots test-fast generate generate-check release synth lint-template lint-api conformance-peers simulate mutations model chaos fuzz-http bench lint fmt clean
