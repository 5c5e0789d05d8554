# The five binaries.

BINARIES := manager scheduler runtimed runtime-server krt
LDFLAGS := -s -w -X $(MODULE)/version.version=$(VERSION)

##@ Build

.PHONY: build
build: $(BINARIES:%=build-%) ## Build all binaries into bin/.

# The go command knows best what is out of date, so these are phony.
.PHONY: $(BINARIES:%=build-%)
$(BINARIES:%=build-%): build-%:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/$* ./cmd/$*

.PHONY: fmt
fmt: $(call tool,golangci-lint) ## Format the Go code in place.
	$(BIN)/tools/golangci-lint fmt
