# Everyday targets. They need git, make, a C compiler and rustup.

CARGO ?= cargo

# Which tests `make miri` runs; by default all that touch unsafe code or atomics.
MIRI_TESTS ?=

.PHONY: help demo test lint features check bench bench-large bench-test book deb deny packages semver soak fuzz fuzz-test loom race miri pg-beyond-memory pg-commits pg-costs pg-deb pg-install pg-lint pg-mixed pg-soak pg-test \
	py-bench py-lint py-test arrow-test sql-lint sql-test

help: ## Print these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

demo: ## Load a year of real departures, query it, check it, draw its disorder
	$(CARGO) build --profile demo --locked -p bedload-cli --no-default-features --target-dir target
	./target/demo/bedload demo

test: ## Run all tests, the long ones with every fifth of their cases (BEDLOAD_THOROUGH=1: with all)
	$(CARGO) test --locked

lint: ## Check format, lints and documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(CARGO) clippy -p bedload-bench --features coherence --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --locked

features: ## Check each crate alone, with each of its features
	./scripts/features

check: ## Compile what other platforms are to have: the store, the indexes in memory, the command
	$(CARGO) check --locked -p bedload -p bedload-memory -p bedload-cli

arrow-test: ## Check and test the store with the oldest Arrow that it accepts
	./scripts/arrow-oldest

bench-test: ## Run every scenario of the benchmarks, tiny, with every subject
	$(CARGO) test -p bedload-bench --locked

BENCH_PYTHON = target/bench-python

$(BENCH_PYTHON)/installed:
	$(PYTHON) -m venv $(BENCH_PYTHON)
	$(BENCH_PYTHON)/bin/pip install -q duckdb pyarrow
	touch $@

bench: $(BENCH_PYTHON)/installed ## Repeat each measurement of docs/benchmarks in an hour, and write its tables anew (needs python3 with venv, a C++ compiler and libclang-dev; builds RocksDB)
	$(CARGO) build --release -p bedload-bench --features rocksdb --locked --target-dir target
	./target/release/bedload-bench all --note "$(BENCH_NOTE)"

bench-large: $(BENCH_PYTHON)/installed ## Repeat the measurements of tables that are left out of bench: 50 and 100 million rows, minutes of ingest (takes 10 minutes and 20 GB of disk)
	$(CARGO) build --release -p bedload-bench --features rocksdb --locked --target-dir target
	./target/release/bedload-bench all --only table-beyond-memory-50m,table-sustained,table-large --note "$(BENCH_NOTE)"

book: ## Build the pages of docs/ into target/book, and follow every link (installs mdBook into target/mdbook)
	./scripts/book

deb: ## Pack the command as a Debian package in target/deb, install it into an empty root and try it (needs dpkg-dev)
	./scripts/deb
	./scripts/deb-test

pg-deb: ## Pack the PostgreSQL extension as a Debian package, install it beside a copy of the server and try it (needs what pg-lint needs, and postgresql-15)
	PG_CONFIG=$(PG_CONFIG) ./scripts/pg-deb
	PG_CONFIG=$(PG_CONFIG) ./scripts/pg-deb-test

deny: ## Check licences, duplicates and sources of dependencies; DENY=advisories: known vulnerabilities (installs cargo-deny into target/deny)
	./scripts/deny $(DENY)

semver: ## Compare the interface of each crate with that of the last release (installs cargo-semver-checks into target/semver)
	./scripts/semver

packages: ## Pack each crate for the registry, and build each from its package
	$(CARGO) package --workspace --exclude bedload-bench --locked

soak: ## Run the long tests, the benchmarks' among them: more operations, more power cuts, more kills
	BEDLOAD_THOROUGH=1 BEDLOAD_SOAK_SECONDS=600 BEDLOAD_HOSTILE_SECONDS=600 BEDLOAD_TEST_OPERATIONS=2000000 BEDLOAD_POWER_CUTS=100000 BEDLOAD_EVERY_BYTE=1 \
		BEDLOAD_KILL_ROUNDS=200 BEDLOAD_KILLS=1000 \
		BEDLOAD_READER_COMMITS=10000 BEDLOAD_READER_KILLS=20 BEDLOAD_READER_DELAY_MS=1000 $(CARGO) test --workspace --release --locked

miri: ## Run the unsafe parts of the indexes and of the store's memory under Miri (needs a nightly toolchain with miri and rust-src)
	./scripts/miri $(MIRI_TESTS)

loom: ## Run the models of the in-memory indexes and of commits: all ways in which a few threads may take turns, within bounds
	RUSTFLAGS="--cfg loom" $(CARGO) test --release --locked --target-dir target/loom -p bedload-memory -p bedload --lib loom_

race: ## Run the tests of the in-memory indexes under ThreadSanitizer (needs a nightly toolchain with rust-src)
	./scripts/thread-sanitizer

PG_VERSION ?= 15
PG_CONFIG ?= /usr/lib/postgresql/$(PG_VERSION)/bin/pg_config
PG_CARGO = cd crates/pg && PGRX_PG_CONFIG_PATH=$(PG_CONFIG) $(CARGO)
PG_FEATURES = --no-default-features --features pg$(PG_VERSION)

pg-lint: ## Check the PostgreSQL extension as lint does (needs postgresql-server-dev-15 and libclang-dev)
	$(PG_CARGO) fmt --all --check
	$(PG_CARGO) clippy --all-targets $(PG_FEATURES),harness --locked -- -D warnings
	$(PG_CARGO) clippy $(PG_FEATURES) --locked -- -D warnings
	$(PG_CARGO) clippy -p bedload-pg-tests --all-targets --locked -- -D warnings

# Tests with the server's source, or without its own tests where the source cannot be fetched.
define PG_TESTS
source="$$(PG_CONFIG=$(PG_CONFIG) ./scripts/pg-source)" || { \
	[ $$? = 3 ] || exit 1; \
	echo "skipped: the server's own tests, for want of its source"; \
	skip="--skip foreign::the_servers"; \
}; \
export BEDLOAD_PG_SOURCE="$$source"; \
$(PG_CARGO) test -p bedload-pg-tests --locked -- $$skip
endef

pg-test: ## Test the PostgreSQL extension in private clusters (needs postgresql-15 too, or PG_VERSION=16, 17, 18 and PG_CONFIG)
	$(PG_CARGO) build $(PG_FEATURES),harness --locked
	$(PG_TESTS)

pg-soak: ## The same for longer: the server's own suites as a whole, 100,000 compared queries, more crashes
	$(PG_CARGO) build $(PG_FEATURES),harness --locked
	export BEDLOAD_PG_SUITES=all BEDLOAD_PG_QUERIES=100000 BEDLOAD_PG_KILLS=50 BEDLOAD_PG_SCHEMAS=200 BEDLOAD_PG_RACE=1000000 BEDLOAD_PG_SQLSMITH=20000 BEDLOAD_PG_DAMAGED=200; $(PG_TESTS)

pg-install: ## Install the PostgreSQL extension into the installation that PG_CONFIG names; SUDO=sudo: that of root
	$(PG_CARGO) build --release $(PG_FEATURES) --locked --target-dir target
	$(SUDO) install -m 755 crates/pg/target/release/libbedload_pg.so "$$($(PG_CONFIG) --pkglibdir)/bedload_pg.so"
	$(SUDO) install -m 644 crates/pg/bedload.control crates/pg/sql/bedload--*.sql "$$($(PG_CONFIG) --sharedir)/extension/"

PG_COSTS ?= 400000,3

# Results of the measurements, from which docs/postgres.md gets its tables.
PG_RESULTS ?= $(CURDIR)/crates/bench/results

pg-costs: ## Measure what rows cost the PostgreSQL extension, with PG_COSTS=rows,rounds
	$(PG_CARGO) build --release $(PG_FEATURES),harness --locked
	export BEDLOAD_PG_COSTS=$(PG_COSTS) BEDLOAD_PG_RESULTS="$(PG_RESULTS)"; $(PG_CARGO) test --release -p bedload-pg-tests --locked cost -- --nocapture --test-threads=1

PG_BEYOND_MEMORY ?= 25000000,128,15

pg-beyond-memory: ## Measure PostgreSQL tables whose indexes outgrow memory, with PG_BEYOND_MEMORY=rows,MiB,seconds, 64 MiB or more (as root: the server gets a cgroup)
	$(PG_CARGO) build --release $(PG_FEATURES),harness --locked
	export BEDLOAD_PG_BEYOND_MEMORY=$(PG_BEYOND_MEMORY) BEDLOAD_PG_RESULTS="$(PG_RESULTS)"; $(PG_CARGO) test --release -p bedload-pg-tests --locked outgrows_memory -- --nocapture

PG_COMMITS ?= 50000000,256,24

pg-commits: ## Measure how long commits to such tables wait, with PG_COMMITS=rows,MiB,seconds (as root)
	$(PG_CARGO) build --release $(PG_FEATURES),harness --locked
	export BEDLOAD_PG_COMMITS=$(PG_COMMITS) BEDLOAD_PG_RESULTS="$(PG_RESULTS)"; $(PG_CARGO) test --release -p bedload-pg-tests --locked commits_are_timed -- --nocapture

PG_MIXED ?= 2000000,256,3600

pg-mixed: ## Let rows come, go, change and be read for an hour, with PG_MIXED=rows,MiB,seconds (as root)
	$(PG_CARGO) build --release $(PG_FEATURES),harness --locked
	export BEDLOAD_PG_MIXED=$(PG_MIXED) BEDLOAD_PG_RESULTS="$(PG_RESULTS)"; $(PG_CARGO) test --release -p bedload-pg-tests --locked mixed_work -- --nocapture

FUZZ_RUNS ?= 5000

fuzz-test: ## Build each fuzz target, and run it on its corpus and FUZZ_RUNS inputs (needs no nightly toolchain)
	FUZZ_RUNS=$(FUZZ_RUNS) ./scripts/fuzz-test

PYTHON ?= python3
PY_VENV = target/python
PY_RUN = cd crates/python && ../../$(PY_VENV)/bin/python

$(PY_VENV)/installed: crates/python/pyproject.toml
	$(PYTHON) -m venv $(PY_VENV)
	$(PY_VENV)/bin/pip install -q 'maturin>=1.9,<2' tomli
	$(PY_VENV)/bin/python -c "import tomli; extras = tomli.load(open('crates/python/pyproject.toml', 'rb'))['project']; \
		print(*extras['dependencies'], *extras['optional-dependencies']['test'], *extras['optional-dependencies']['lint'], sep='\n')" > $@.txt
	$(PY_VENV)/bin/pip install -q -r $@.txt
	touch $@

.PHONY: py-build
py-build: $(PY_VENV)/installed
	cd crates/python && VIRTUAL_ENV="$(CURDIR)/$(PY_VENV)" ../../$(PY_VENV)/bin/maturin develop --release --locked

py-test: py-build ## Test the Python package in an environment of its own (needs python3 3.10 or later, with venv)
	rm -rf target/wheels
	./scripts/third-party-notices crates/python > crates/python/LICENSE-THIRD-PARTY
	cd crates/python && ../../$(PY_VENV)/bin/maturin build -q --release --locked --out ../../target/wheels
	$(PY_RUN) -m pytest -q

py-lint: $(PY_VENV)/installed ## Check the Python package as lint does
	cd crates/python && $(CARGO) fmt --all --check
	cd crates/python && $(CARGO) clippy --release --all-targets --locked -- -D warnings
	cd crates/python && ../../$(PY_VENV)/bin/ruff check . && ../../$(PY_VENV)/bin/ruff format --check .
	$(PY_RUN) -m mypy python/bedload

PY_RESULTS = $(CURDIR)/crates/bench/results

py-bench: py-build ## Measure the Python package against pandas with SQLite, DuckDB and Parquet
	$(CARGO) build --release --locked -p bedload --example copies
	$(PY_RUN) bench/late_rows.py --rounds 9 --hours 6 --results "$(PY_RESULTS)/python-late-rows.jsonl" --note "$(BENCH_NOTE)"
	$(PY_RUN) bench/copies.py --results "$(PY_RESULTS)/python-copies.jsonl" --note "$(BENCH_NOTE)"

SQL_VENV = target/sql

$(SQL_VENV)/installed:
	$(PYTHON) -m venv $(SQL_VENV)
	$(SQL_VENV)/bin/pip install -q 'duckdb>=1.1,<2'
	touch $@

sql-test: $(SQL_VENV)/installed ## Test SQL over stores, against DuckDB (needs python3 with venv; builds DataFusion)
	cd crates/datafusion && BEDLOAD_DUCKDB="$(CURDIR)/$(SQL_VENV)/bin/python" $(CARGO) test --workspace --locked

sql-lint: ## Check SQL over stores as lint does
	cd crates/datafusion && $(CARGO) fmt --all --check
	cd crates/datafusion && $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	cd crates/datafusion && RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

FUZZ_SECONDS ?= 300

fuzz: ## Fuzz each reader of bytes for FUZZ_SECONDS (needs a nightly toolchain and cargo-fuzz)
	@failed=; for source in fuzz/fuzz_targets/*.rs; do \
		target=$$(basename $$source .rs) && mkdir -p target/fuzz/$$target && \
		$(CARGO) +nightly fuzz run $$target target/fuzz/$$target fuzz/corpus/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -timeout=10 || failed="$$failed $$target"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }
