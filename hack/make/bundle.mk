# The bundle for the Operator Lifecycle Manager: see docs/operations.md.

# The version of the bundle, without v. A release sets it, and names in BUNDLE_REPLACES the one before (kruntimes.vX.Y.Z);
# BUNDLE_SKIP_RANGE is a range of versions that may be skipped on the way, as '>=0.1.0 <0.2.0'.
BUNDLE_VERSION ?= 0.1.0
BUNDLE_REPLACES ?=
BUNDLE_SKIP_RANGE ?=
BUNDLE_CHANNEL ?= candidate

##@ OLM

.PHONY: bundle
bundle: generate-crds ## Write bundle/ for OLM from config/olm and config/manifests; BUNDLE_VERSION=X.Y.Z.
	$(GO) run ./hack/bundle --version='$(BUNDLE_VERSION)' --replaces='$(BUNDLE_REPLACES)' --skip-range='$(BUNDLE_SKIP_RANGE)' --channel='$(BUNDLE_CHANNEL)'

.PHONY: verify-bundle
verify-bundle: $(call tool,operator-verify) ## Check bundle/ with the validators of the operator framework.
	$(BIN)/tools/operator-verify bundle

.PHONY: bundle-image
bundle-image: ## Build the image of the bundle, kruntimes/bundle:vBUNDLE_VERSION.
	$(DOCKER) build --file bundle.Dockerfile --tag kruntimes/bundle:v$(BUNDLE_VERSION) .

.PHONY: olm
olm: $(call tool,olm) $(call tool,olm-catalog) ## Build the operator of OLM, and what installs bundles, into bin/tools.

# The directory of a cluster of its own: another installation of kruntimes would be in the way.
OLM_CLUSTER ?= /tmp/kruntimes-olm

.PHONY: e2e-olm
e2e-olm: images-tars olm ## Install the bundle by OLM in a cluster of its own, use it and remove it; the cluster is removed afterwards.
	CLUSTER=$(OLM_CLUSTER) KEEP=$(KEEP) hack/on-cluster.sh make e2e-olm-run

.PHONY: e2e-olm-run
e2e-olm-run:
	$(BIN)/cluster --state=$(OLM_CLUSTER) load $(addprefix $(IMAGES)/,controlplane.tar node.tar debian-bash.tar)
	$(GO) test -count=1 -timeout=20m -tags=grpcnotrace,e2eolm $(TESTFLAGS) ./test/e2e/olm
