# What is run by hand on the cluster of cluster.mk, and takes long: kills at random, and figures of one node.

CHAOS_WORKFLOWRUNS ?= 200
CHAOS_MINUTES ?= 20
# Printed by each run; the same one gives the same choices, though not the same moments.
CHAOS_SEED ?=
# The 40 minutes beside CHAOS_MINUTES are for what still executes then, the verdict, and the end of the namespace.
ON_CLUSTER = CLUSTER=$(CLUSTER) KUBECONFIG=$(CLUSTER)/kubeconfig KUBECTL=$(E2E_KUBECTL)

.PHONY: chaos
chaos: cluster-up cluster-deploy ## Kill parts at random under CHAOS_WORKFLOWRUNS=200 on the cluster of CLUSTER, for CHAOS_MINUTES=20 at most; CHAOS_SEED=N.
	$(ON_CLUSTER) CHAOS_WORKFLOWRUNS=$(CHAOS_WORKFLOWRUNS) CHAOS_MINUTES=$(CHAOS_MINUTES) CHAOS_SEED=$(CHAOS_SEED) \
		$(GO) test -count=1 -v -tags=grpcnotrace,chaos -timeout=$$(($(CHAOS_MINUTES) + 40))m ./test/e2e/chaos

.PHONY: bench-node
bench-node: cluster-up cluster-deploy ## Measure Runs, steps and bare Pods on the cluster of CLUSTER.
	$(ON_CLUSTER) $(GO) test -count=1 -v -tags=grpcnotrace,nodebench -timeout=30m ./test/e2e/nodebench
