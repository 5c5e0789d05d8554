# A real cluster of one node on this machine, and the end-to-end suite. Linux and root only; see docs/development.md.

# The cluster's directory. Its kubeconfig is in there.
CLUSTER ?= /tmp/kruntimes-cluster
# KEEP=1 leaves the cluster of "make e2e" up.
KEEP ?=
# The images of kruntimes on somebody's cluster, as PREFIX:TAG of PREFIX/controlplane:TAG and PREFIX/node:TAG.
IMG ?= kruntimes:dev
IMAGES := $(BIN)/images
CLUSTER_COMMAND = $(BIN)/cluster --state=$(CLUSTER)
E2EFLAGS ?= -timeout=60m -parallel=4
# A kubectl of our own, so that the suite needs none of the machine.
HASH_kubectl := $(call hash,hack/tools/kubectl)
PACKAGE_kubectl := .
$(eval $(call build-tool,kubectl,hack/tools/kubectl))
E2E_KUBECTL := $(CURDIR)/$(BIN)/tools/kubectl

##@ Cluster

.PHONY: build-cluster
build-cluster:
	$(GO) build -o $(BIN)/cluster ./hack/cluster
	$(GO) build -ldflags '-s -w' -o $(BIN)/pause ./test/cluster/pause

.PHONY: images-tars
images-tars: build build-cluster ## Write the images of kruntimes and of the end-to-end suite as archives into bin/images; needs no daemon.
	hack/cluster-packages.sh
	bash=$$(hack/debian-root.sh) && python=$$(hack/debian-root.sh python3) && \
		$(BIN)/cluster images --binaries=$(BIN) --output=$(IMAGES) --system=debian-bash=$$bash --system=python=$$python

.PHONY: cluster-up
cluster-up: build-cluster ## Start a real cluster of one node in CLUSTER=/tmp/kruntimes-cluster, as root.
	hack/cluster-packages.sh
	$(CLUSTER_COMMAND) up

.PHONY: cluster-down
cluster-down: build-cluster ## End the cluster and remove all that it made.
	$(CLUSTER_COMMAND) down

.PHONY: cluster-load
cluster-load: images-tars ## Load the images into the cluster.
	$(CLUSTER_COMMAND) load $(addprefix $(IMAGES)/,controlplane.tar node.tar debian-bash.tar python.tar)

# cert-manager runs as a part of the cluster, and ends with it.
.PHONY: cluster-deploy
cluster-deploy: cluster-load certmanager $(call tool,kustomize) $(call tool,kubectl) ## Install cert-manager's controllers and config/default in the cluster.
	$(CLUSTER_COMMAND) start --until=ready certmanager $(BIN)/tools/certmanager --kubeconfig=$(CLUSTER)/kubeconfig
	KUBECONFIG=$(CLUSTER)/kubeconfig IMG=$(IMG) KUBECTL=$(E2E_KUBECTL) hack/e2e-deploy.sh

.PHONY: e2e
e2e: build-cluster ## Run the end-to-end suite on a cluster of its own, which is removed afterwards; KEEP=1 keeps it.
	CLUSTER=$(CLUSTER) KEEP=$(KEEP) hack/on-cluster.sh make cluster-deploy e2e-run e2e-install

.PHONY: e2e-test
e2e-test: build $(call tool,kustomize) $(call tool,kubectl) ## Install kruntimes in the cluster of KUBECONFIG, with the images of IMG=PREFIX:TAG, and run the suite there.
	@[[ -n "$${KUBECONFIG:-}" ]] || { echo "KUBECONFIG names no cluster" >&2; exit 1; }
	IMG=$(IMG) KUBECTL=$(E2E_KUBECTL) hack/e2e-deploy.sh
	CLUSTER= $(MAKE) e2e-run

# One package at a time: ./test/cluster starts a second cluster.
.PHONY: e2e-run
e2e-run: $(call tool,kubectl)
	IMG=$(IMG) KUBECTL=$(E2E_KUBECTL) $(GO) test -count=1 -p=1 -tags=grpcnotrace,e2e $(E2EFLAGS) $(TESTFLAGS) ./test/cluster ./test/e2e/...

# Ends without an installation.
.PHONY: e2e-install
e2e-install: $(call tool,kustomize) $(call tool,kubectl)
	IMG=$(IMG) KUBECTL=$(E2E_KUBECTL) $(GO) test -count=1 -tags=grpcnotrace,e2einstall -timeout=20m $(TESTFLAGS) ./test/e2e/install
