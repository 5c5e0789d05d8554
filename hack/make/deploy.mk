# Installing into the cluster of the current kubectl context.

KUBECTL ?= kubectl
OVERLAY ?= config/default
CRDS ?= config/crd

##@ Deploy

.PHONY: install
install: $(call tool,kustomize) ## Install the CRDs only; CRDS=config/crd/bases/core takes those of one group.
	$(BIN)/tools/kustomize build $(CRDS) | $(KUBECTL) apply -f -

.PHONY: deploy
deploy: $(call tool,kustomize) ## Install everything; OVERLAY=path takes another overlay than config/default.
	$(BIN)/tools/kustomize build $(OVERLAY) | $(KUBECTL) apply -f -

# Removes what makes others, and workspaces, while the manager still runs: see hack/undeploy.sh for TIMEOUT and FORCE.
.PHONY: undeploy
undeploy: $(call tool,kustomize) ## Remove everything, with all Runtimes, Runs, workflows and workspaces.
	$(BIN)/tools/kustomize build $(OVERLAY) | KUBECTL="$(KUBECTL)" hack/undeploy.sh
