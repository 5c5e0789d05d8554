# Tests. They need no cluster: the control plane is built from pinned modules into a cache, see docs/development.md.

# Packages of the integration layers; all others are unit tests.
# Those that take long come first, so that none of them is left over at the end.
INTEGRATION := ./test/system/runs ./test/envtest/scheduler ./test/envtest/workflows ./test/system/install \
	./test/envtest/runtimed ./test/system/devcluster ./test/envtest/... ./test/system/... ./test/cluster/...
UNIT = $$($(GO) list ./... | grep -v '^$(MODULE)/test/')
TESTFLAGS ?=
# How many suites run at a time. They wait for half of their time, so two cores serve three.
SUITES ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores > 3 ? cores : 3)))
# How much memory the suites, their API servers first of all, may take for less work; see GOGC in Go's package runtime.
SUITES_GOGC ?= 400
# The S3 server that tests of artifacts start.
export KRUNTIMES_S3SERVER ?= $(CURDIR)/$(BIN)/tools/versitygw
# What makes certificates in tests, as cert-manager does.
export KRUNTIMES_CERTMANAGER ?= $(CURDIR)/$(BIN)/tools/certmanager

##@ Test

.PHONY: test
test: test-unit test-integration ## Run every test that needs no cluster; sets up all that they need.

.PHONY: test-unit
test-unit: s3server ## Run the unit tests.
	$(GO) test $(TESTFLAGS) $(UNIT)

.PHONY: test-race
test-race: s3server ## Run the unit tests under the race detector (needs a C compiler).
	CGO_ENABLED=1 $(GO) test -race $(TESTFLAGS) $(UNIT)

# API servers do most of the work. With GOGC=400 they take a quarter less time for it.
.PHONY: test-integration
test-integration: controlplane build s3server certmanager ## Run the suites against a real API server and etcd.
	KUBEBUILDER_ASSETS="$$($(GO) run ./hack/controlplane)" KRUNTIMES_BIN=$(CURDIR)/$(BIN) GOGC=$(SUITES_GOGC) \
		$(GO) test -timeout=30m -p=$(SUITES) $(TESTFLAGS) $(INTEGRATION)

.PHONY: controlplane
controlplane: ## Build the embedded control plane into its cache (minutes the first time, a second after that).
	@$(GO) run ./hack/controlplane >/dev/null

.PHONY: s3server
s3server: $(call tool,versitygw) ## Build the S3 server of the tests into bin/tools.

.PHONY: certmanager
certmanager: $(call tool,certmanager) ## Build the program that runs the controllers of cert-manager in tests into bin/tools.

.PHONY: demo
demo: controlplane build ## Start a control plane, run the examples and 50 Runs at once, print what came of them.
	$(GO) run ./hack/demo

##@ Benchmarks

.PHONY: bench-quick
bench-quick: controlplane build ## Compare Runs with the floor of three API writes, in under two minutes.
	$(GO) run ./test/perf/bench --quick

.PHONY: bench
bench: controlplane build ## Run all benchmarks; BENCH_JSON=file also writes the figures there.
	$(GO) run ./test/perf/bench
