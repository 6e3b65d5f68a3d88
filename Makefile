# Every target is a visible line or two of cargo. `make help` lists them.

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# The binary under test, built before the tests so that none of them has to call cargo.
export TRANSOM_BIN ?= $(TARGET)/debug/transom

TEST := $(if $(shell command -v cargo-nextest),cargo nextest run --workspace && cargo test --workspace --doc,cargo test --workspace)

.PHONY: help build test check lint fmt gen deny bench microbench fuzz e2e conformance demo
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
	cargo build --workspace --bins
	$(TEST)

e2e: .e2e/ready ## only the tests with real servers and clients, with a table of every client by every server
	cargo build --workspace --bins
	cargo test --workspace --test e2e -- --nocapture

conformance: .e2e/ready ## the official MCP conformance suite through the gateway, as tables
	cargo build --workspace --bins
	cargo test --workspace --test conformance -- --nocapture --test-threads 1

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

bench: ## CPU per request against a bare proxy; BENCH="--seconds 10 --rounds 5" for more
	cargo build --release --workspace --bins
	$(TARGET)/release/bench $(BENCH)

microbench: ## what the registry engine costs, beside a plain parse
	cargo bench -p transom-registry --bench engine

fuzz: ## fuzzes the registry engine; EXECUTIONS=1000000 or SECONDS=60 for each target, ONLY=name for one
	cargo test --release -p transom-registry --test fuzz

.e2e/ready: tests/e2e/setup.sh tests/e2e/package.json tests/e2e/package-lock.json tests/e2e/requirements.txt
	tests/e2e/setup.sh
