# Build tools, from modules of their own so that they never enter the product's dependency graph.
#
# A tool is built once per version: its stamp carries a hash of the module that pins it, and of what lies in that module.
# "$(call tool,NAME)" is the prerequisite that stands for the built tool bin/tools/NAME.

hash = $(shell cat $(1)/go.mod $(1)/go.sum $(wildcard $(1)/*.go $(1)/cmd/*.go) | git hash-object --stdin | cut -c1-12)
HASH_golangci-lint := $(call hash,hack/tools/lint)
HASH_versitygw := $(call hash,hack/tools/s3server)
HASH_certmanager := $(call hash,test/certmanager)
HASH_olm := $(call hash,test/olm)
HASH_olm-catalog := $(HASH_olm)
HASH_operator-verify := $(call hash,hack/tools/olm)
TOOLS_HASH := $(call hash,hack/tools)

tool = $(BIN)/tools/.$(1)-$(or $(HASH_$(1)),$(TOOLS_HASH))

PACKAGE_buf := github.com/bufbuild/buf/cmd/buf
PACKAGE_controller-gen := sigs.k8s.io/controller-tools/cmd/controller-gen
PACKAGE_kustomize := sigs.k8s.io/kustomize/kustomize/v5
PACKAGE_protoc-gen-go := google.golang.org/protobuf/cmd/protoc-gen-go
PACKAGE_protoc-gen-go-grpc := google.golang.org/grpc/cmd/protoc-gen-go-grpc
PACKAGE_golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
PACKAGE_versitygw := github.com/versity/versitygw/cmd/versitygw
PACKAGE_certmanager := ./cmd
PACKAGE_olm := github.com/operator-framework/operator-lifecycle-manager/cmd/olm
PACKAGE_olm-catalog := .
PACKAGE_operator-verify := .

TOOLS := buf controller-gen kustomize protoc-gen-go protoc-gen-go-grpc

##@ Tools

.PHONY: tools
tools: $(foreach t,$(TOOLS) golangci-lint,$(call tool,$(t))) ## Build the pinned tools into bin/tools; the linter takes some minutes the first time.

# $(1): tool, $(2): folder of the module that pins it.
define build-tool
$(call tool,$(1)):
	@echo "building $(1), once per version" >&2
	@mkdir -p $(BIN)/tools && rm -f $(BIN)/tools/.$(1)-????????????
	cd $(2) && $(GO) build -o $(CURDIR)/$(BIN)/tools/$(1) $$(PACKAGE_$(1))
	$$(AFTER_$(1))
	@touch $$@
endef
$(foreach t,$(TOOLS),$(eval $(call build-tool,$(t),hack/tools)))
$(eval $(call build-tool,golangci-lint,hack/tools/lint))
$(eval $(call build-tool,versitygw,hack/tools/s3server))
# cert-manager's definitions lie in its module; the program looks for them beside itself.
AFTER_certmanager = rm -rf $(BIN)/tools/certmanager-crds && mkdir $(BIN)/tools/certmanager-crds && \
	cp "$$(cd test/certmanager && $(GO) list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)"/deploy/crds/*.yaml $(BIN)/tools/certmanager-crds/
$(eval $(call build-tool,certmanager,test/certmanager))
$(eval $(call build-tool,olm,test/olm))
$(eval $(call build-tool,olm-catalog,test/olm))
$(eval $(call build-tool,operator-verify,hack/tools/olm))
