# Every target is a visible line or two of cargo. `make help` lists them.

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# The binary under test, built before the tests so that none of them has to call cargo.
export TRANSOM_BIN ?= $(TARGET)/debug/transom

# `CI=true` where a table is asked for: without the real servers and clients there is none, and that is a failure.
# What is measured is built with whole-program optimisation, which takes minutes; `PROFILE=quick` does without, as CI does.
PROFILE ?= release
OPTIMISED := $(TARGET)/$(PROFILE)

# Dependencies have other features where those of tests count as well, and `--examples` makes them count (there are none to build): so the
# programs under test share every dependency with the tests, and nothing is compiled twice.
BUILD := cargo build --workspace --examples

# Another version makes other mutants, and the score is one of these.
MUTANTS := 27.1.0

TEST := $(if $(shell command -v cargo-nextest),cargo nextest run --workspace && cargo test --workspace --doc,cargo test --workspace)

.PHONY: help build test check lint fmt gen deny bench microbench fuzz mutants faults load soak e2e conformance demo
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

build: ## the binary, target/release/transom
	cargo build --release

demo: ## the gateway with built-in targets on port 3000, nothing to install
	cargo run --release -- demo

check: ## does it compile, tests included
	cargo check --workspace --all-targets

test: .e2e/ready ## every test, with real MCP servers and clients
	$(BUILD) --bins
	$(TEST)

e2e: .e2e/ready ## only the tests with real servers and clients, with a table of every client by every server
	$(BUILD) --bins
	CI=true cargo test --workspace --test e2e -- --nocapture

conformance: .e2e/ready ## the official MCP conformance suite through the gateway, as tables
	$(BUILD) --bins
	CI=true cargo test --workspace --test conformance -- --nocapture --test-threads 1

lint: deny ## rustfmt, clippy, cargo-deny
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: ## formats the code
	cargo fmt --all

deny: ## licences, banned crates, sources and advisories of the dependencies
	.ci/deny

gen: ## rewrites what is generated: schema/
	UPDATE_SCHEMA=1 cargo test -p transom-config --test schema
	UPDATE_SCHEMA=1 cargo test -p transom-registry --test schema

bench: ## CPU per request against a bare proxy, memory, start, curves, 9,000 sessions; without those BENCH="--short", "--seconds 10 --rounds 9", "--only virtual"
	cargo build --profile $(PROFILE) --workspace --bin transom --bin bench $(if $(BENCH),,--bin load --bin fake-stdio)
	$(OPTIMISED)/bench $(BENCH)
	$(if $(BENCH),,TRANSOM_BIN=$(OPTIMISED)/transom $(OPTIMISED)/load --only T17)

microbench: ## what the registry engine costs, beside a plain parse
	cargo bench -p transom-registry --bench engine

fuzz: ## every fuzz target; SECONDS=60 or EXECUTIONS=1000000 each, ONLY=a,b, SEED=n, GROW=1 keeps what is new
	FUZZ_SECONDS=$(or $(SECONDS),$(if $(EXECUTIONS),,10)) FUZZ_EXECUTIONS=$(EXECUTIONS) FUZZ_ONLY=$(ONLY) FUZZ_SEED=$(SEED) FUZZ_GROW=$(GROW) FUZZ_COUNTED=1 \
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/fuzz/instrument cargo test --workspace --test fuzz

mutants: ## mutation testing of how the engine builds calls and shapes results; SHARD=0/3 for a third
	cargo mutants --version 2>/dev/null | grep -qx 'cargo-mutants $(MUTANTS)' || cargo install cargo-mutants --version $(MUTANTS) --locked
	mkdir -p $(TARGET)/evidence
	CARGO_PROFILE_DEV_DEBUG=0 cargo mutants --package transom-registry -j 2 --file crates/registry/src/call.rs --file 'crates/registry/src/call/*.rs' \
		--file crates/registry/src/result.rs --file 'crates/registry/src/result/*.rs' --timeout 90 --output $(TARGET)/evidence $(if $(SHARD),--shard $(SHARD) --sharding round-robin) -- --lib --test cases \
		|| case $$? in 2|3) ;; *) exit 1 ;; esac # 2: some are left, 3: some never came to an end; how many may be is judged below
	.ci/mutants $(TARGET)/evidence/mutants.out/outcomes.json $(TARGET)/evidence/mutants$(if $(SHARD),-$(subst /,-of-,$(SHARD))).json

load: ## sessions, slow clients, large bodies, overload, counted; SHORT=1 for a minute, ONLY=T17,T23, SESSIONS=, NAMES=, MINUTES=
	cargo build --profile $(PROFILE) --workspace --bin transom --bin load --bin fake-stdio
	TRANSOM_BIN=$(OPTIMISED)/transom $(OPTIMISED)/load $(if $(SHORT),--short) $(if $(ONLY),--only $(ONLY)) \
		$(if $(SESSIONS),--sessions $(SESSIONS)) $(if $(SLOW),--slow $(SLOW)) $(if $(NAMES),--names $(NAMES)) $(if $(MINUTES),--minutes $(MINUTES))

soak: ## mixed traffic with reloads, deaths and attacks for MINUTES=20, a line a minute
	cargo build --profile $(PROFILE) --workspace --bin transom --bin load --bin fake-stdio
	TRANSOM_BIN=$(OPTIMISED)/transom $(OPTIMISED)/load soak --minutes $(or $(MINUTES),20)

faults: .e2e/ready ## kills, stops, cuts and floods, counted; SEED=7, TIMES=3 for three times as much, SHORT=1 for a minute, ONLY=T7,T9
	$(BUILD) --bin transom --features transom-gateway/inject-panics
	rm -f $(TARGET)/debug/transom-panicking && mv $(TARGET)/debug/transom $(TARGET)/debug/transom-panicking
	$(BUILD) --bins
	cargo test --workspace --lib --test spec --no-run
	$(TARGET)/debug/faults --seed "$(or $(SEED),1)" --times "$(or $(TIMES),1)" --only "$(ONLY)" $(if $(SHORT),--short)

.e2e/ready: .ci/programs tests/e2e/setup.sh tests/e2e/package.json tests/e2e/package-lock.json tests/e2e/requirements.txt
	.ci/programs
	tests/e2e/setup.sh
