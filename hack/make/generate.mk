# Generated files. They are committed; "make verify" fails when they are stale.

##@ Generate

.PHONY: generate
generate: generate-deepcopy generate-crds generate-proto generate-metrics bundle ## Regenerate deep copies, CRDs, gRPC code, the page of metrics and the bundle in place.

.PHONY: generate-deepcopy
generate-deepcopy: $(call tool,controller-gen)
	$(BIN)/tools/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./apis/...

# hack/crds strips the descriptions below embedded Kubernetes types and refuses a CRD that client-side apply cannot carry.
.PHONY: generate-crds
generate-crds: $(call tool,controller-gen)
	for group in core workspaces workflows; do \
		$(BIN)/tools/controller-gen crd:generateEmbeddedObjectMeta=true paths=./apis/$$group/... output:crd:dir=config/crd/bases/$$group; \
	done
	$(GO) run ./hack/crds config/crd/bases/*/*kruntimes.io_*.yaml

.PHONY: generate-proto
generate-proto: $(foreach t,buf protoc-gen-go protoc-gen-go-grpc,$(call tool,$(t)))
	$(BIN)/tools/buf lint
	$(BIN)/tools/buf generate

.PHONY: generate-metrics
generate-metrics: generate-deepcopy
	$(GO) run ./hack/metrics docs/metrics.md
