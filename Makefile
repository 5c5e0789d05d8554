# kruntimes: everything a person or a machine does with this tree starts here. "make help" lists it.
# What a target needs it makes itself; Go, git and make are enough. install, deploy and undeploy want kubectl as well;
# what starts a cluster (cluster-up, e2e, e2e-olm and the like) wants Linux, root, and Debian's or Ubuntu's apt with a mirror.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
# Prerequisites may count on those before them, also with -j: one starts a cluster, the next loads images into it.
.NOTPARALLEL:

GO ?= go
BIN := bin
MODULE := kruntimes.io/kruntimes

# VERSION goes into the binaries; a tag where there is one.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# One set of build flags for binaries, tests and the linter, so that they share every compiled package. Without gRPC's
# request tracing the linker can drop what templates might call by name: 4 MB of runtimed.
export CGO_ENABLED ?= 0
export GOFLAGS += -trimpath -tags=grpcnotrace

include hack/make/tools.mk
include hack/make/build.mk
include hack/make/generate.mk
include hack/make/test.mk
include hack/make/verify.mk
include hack/make/deploy.mk
include hack/make/cluster.mk
include hack/make/chaos.mk
include hack/make/bundle.mk

##@ General

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z0-9_-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile hack/make/*.mk

.PHONY: presubmit
presubmit: verify lint test demo ## All that a change must pass without root; .ci/run times each step, and adds e2e and e2e-olm.

.PHONY: clean
clean: ## Remove what was built here. The control plane's cache stays: see docs/development.md.
	rm -rf $(BIN) cover.out
