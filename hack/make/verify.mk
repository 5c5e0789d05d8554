# Checks of the tree itself. Each is a target of its own, so that one can be run alone.

##@ Check

.PHONY: lint
lint: $(call tool,golangci-lint) ## Run the linters of .golangci.yml.
	$(BIN)/tools/golangci-lint run

.PHONY: verify
verify: verify-generated verify-crds verify-modules verify-rooms verify-docs verify-sizes verify-scripts verify-bundle ## Check that generated files, modules, rooms, docs and sizes are in order, and that the CRDs break nothing.

.PHONY: verify-generated
verify-generated: ## Regenerate in place and fail, with the diff, if anything changed.
	hack/verify-generated.sh

.PHONY: verify-crds
verify-crds: ## Check that the CRDs break nothing that worked with those of the last release.
	$(GO) run ./hack/crdcompat

.PHONY: verify-modules
verify-modules: ## Check that each go.mod and go.sum is tidy and that the modules are what they were.
	@for module in $$(git ls-files go.mod "*/go.mod"); do \
		echo "go -C $$(dirname $$module) mod tidy -diff" && $(GO) -C $$(dirname $$module) mod tidy -diff || exit 1; \
	done
	$(GO) mod verify

.PHONY: verify-rooms
verify-rooms: ## Check that packages import only rooms that stand above theirs.
	$(GO) run ./hack/rooms

.PHONY: verify-docs
verify-docs: ## Check that every relative link in the documents resolves.
	$(GO) run ./hack/links

.PHONY: verify-sizes
verify-sizes: ## Check the length of files against the budgets.
	hack/verify-sizes.sh

.PHONY: verify-scripts
verify-scripts: ## Check the shell scripts: they parse, and begin as the rules say.
	hack/verify-scripts.sh
