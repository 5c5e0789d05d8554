# Installing into the cluster of the current kubectl context.

KUBECTL ?= kubectl
OVERLAY ?= config/default

##@ Deploy

.PHONY: install
install: $(call tool,kustomize) ## Install the CRDs only.
	$(BIN)/tools/kustomize build config/crd | $(KUBECTL) apply -f -

.PHONY: deploy
deploy: $(call tool,kustomize) ## Install everything; OVERLAY=path takes another overlay than config/default.
	$(BIN)/tools/kustomize build $(OVERLAY) | $(KUBECTL) apply -f -

.PHONY: undeploy
undeploy: $(call tool,kustomize) ## Remove everything, with all Runtimes and Runs.
	$(BIN)/tools/kustomize build $(OVERLAY) | $(KUBECTL) delete --ignore-not-found -f -
	$(KUBECTL) delete serviceaccounts,rolebindings --all-namespaces -l app.kubernetes.io/managed-by=kruntimes
