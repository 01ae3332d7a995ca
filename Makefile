# Everyday targets. Nothing but git, rustup and a C compiler is needed.

CARGO ?= cargo

.PHONY: help demo test lint soak

help: ## Print these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

demo: ## Load a year of real departures, query it, check it, draw its disorder
	$(CARGO) build --release --locked -p bedload-cli
	./target/release/bedload demo

test: ## Run all tests
	$(CARGO) test --workspace --locked

lint: ## Check format, lints and documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

soak: ## Run the long tests: more rounds, more operations
	BEDLOAD_SOAK=1 $(CARGO) test --workspace --release --locked -- --nocapture
