# The binaries. runtimed-s3 is runtimed with the driver for artifacts in buckets, which it becomes where it has to.

BINARIES := manager scheduler runtimed runtimed-s3 runtime-server krt
build-runtimed-s3: SOURCE := runtimed
build-runtimed-s3: BUILDTAGS := -tags=grpcnotrace,s3
LDFLAGS := -s -w -X $(MODULE)/version.version=$(VERSION)

##@ Build

.PHONY: build
build: $(BINARIES:%=build-%) ## Build all binaries into bin/.

# The go command knows best what is out of date, so these are phony.
.PHONY: $(BINARIES:%=build-%)
$(BINARIES:%=build-%): build-%:
	$(GO) build $(BUILDTAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/$* ./cmd/$(or $(SOURCE),$*)

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
