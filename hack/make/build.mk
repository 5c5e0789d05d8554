# The five binaries.

BINARIES := manager scheduler runtimed runtime-server krt
LDFLAGS := -s -w -X $(MODULE)/version.version=$(VERSION)

##@ Build

.PHONY: build
build: $(BINARIES:%=build-%) ## Build all binaries into bin/.

# The go command knows best what is out of date, so these are phony.
.PHONY: $(BINARIES:%=build-%)
$(BINARIES:%=build-%): build-%:
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/$* ./cmd/$*

IMAGE_TAG ?= dev
DOCKER ?= docker

.PHONY: images
images: ## Build the images kruntimes/controlplane and kruntimes/node, tag IMAGE_TAG=dev.
	for target in controlplane node; do \
		$(DOCKER) build --build-arg VERSION=$(VERSION) --target $$target --tag kruntimes/$$target:$(IMAGE_TAG) .; \
	done

.PHONY: fmt
fmt: $(call tool,golangci-lint) ## Format the Go code in place.
	$(BIN)/tools/golangci-lint fmt
