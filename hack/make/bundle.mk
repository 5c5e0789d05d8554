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
