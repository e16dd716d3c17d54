# Fermata's front door. `make help` lists what there is.

BUILD := build
JOBS ?= $(shell nproc)
CXX_FILES = $(shell git ls-files '*.cc' '*.h')

.DEFAULT_GOAL := help

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

# release is what ships and carries no tests; the other presets carry them.
.PHONY: build
build: ## Build the server and the client (build/release/bin)
	@tools/packages.sh build run
	@cmake --preset release >$(BUILD)-release.log 2>&1 || { cat $(BUILD)-release.log; exit 1; }; \
	  rm -f $(BUILD)-release.log
	@cmake --build --preset release -j $(JOBS) --target fermata-server fermata

.PHONY: demo
demo: build ## Build, stream a story, resume it, and show what the state costs
	@tools/demo.sh $(BUILD)/release/bin

.PHONY: serve
serve: build ## Run the server on the embedded model (ARGS="--flag=value …")
	@exec $(BUILD)/release/bin/fermata-server $(ARGS)

.PHONY: test
test: ## Build and run all tests
	@tools/packages.sh build run test
	@cmake --preset dev
	@cmake --build --preset dev -j $(JOBS)
	@ctest --test-dir $(BUILD)/dev --output-on-failure -j $(JOBS)

.PHONY: asan
asan: ## Run the tests under the address and undefined-behaviour sanitizers
	@tools/packages.sh build run test
	@cmake --preset asan
	@cmake --build --preset asan -j $(JOBS)
	@ctest --test-dir $(BUILD)/asan --output-on-failure -j $(JOBS)

# gRPC and Abseil come as binaries that the thread sanitizer can not see into, so it runs the suites
# of our own threads: tests with the label `threads`.
.PHONY: tsan
tsan: ## Run the tests of threaded code under the thread sanitizer
	@tools/packages.sh build run test
	@cmake --preset tsan
	@cmake --build --preset tsan -j $(JOBS) --target thread_tests
	@ctest --test-dir $(BUILD)/tsan --output-on-failure -j $(JOBS) -L threads

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: ## Run libFuzzer on what reads files and requests (FUZZ_SECONDS=60 each)
	@tools/packages.sh build test fuzz
	@cmake --preset dev -B $(BUILD)/fuzz -DCMAKE_CXX_COMPILER=clang++ -DFERMATA_FUZZ=ON \
	  -DFERMATA_BATCHES=ON >/dev/null
	@cmake --build $(BUILD)/fuzz -j $(JOBS) --target fuzz_targets
	@ls $(BUILD)/fuzz/bin | grep _fuzz$$ | xargs -P $(JOBS) -n 1 tools/fuzz.sh $(BUILD)/fuzz $(FUZZ_SECONDS)

.PHONY: bench
bench: ## Measure docs/PERFORMANCE.md's tables (ARGS="decode load", ARGS=--help)
	@tools/packages.sh build run test
	@cmake --preset dev
	@cmake --build --preset dev -j $(JOBS) --target benchmarks fermata fermata-server
	@tools/bench/run.py $(ARGS)

.PHONY: image
image: ## Build the container image fermata:latest and try it
	@deploy/image.sh
	@deploy/test_image.sh

# clang-tidy reads batches: most of its time goes into headers, and files of a batch share them. Some
# of its checks skip what is included, so each batch becomes one text.
.PHONY: lint
lint: ## Check formatting and run clang-tidy
	@tools/packages.sh build run lint
	@clang-format --dry-run -Werror $(CXX_FILES)
	@cmake --preset dev -B $(BUILD)/lint -DFERMATA_BATCHES=ON -DFERMATA_TESTS=OFF >/dev/null
	@cmake --build $(BUILD)/lint -j $(JOBS) --target fermata_proto_sources
	@find $(BUILD)/lint -name 'unity_*.cxx' | \
	  xargs sed -i -E "s|^#include \"(.*)\"|echo '#line 1 \"\1\"'; cat \1|e"
	@sed -n 's/^  "file": "\(.*\)".*/\1/p' $(BUILD)/lint/compile_commands.json | \
	  grep -v -e '/$(BUILD)/lint/proto/' -e '/embedded/' | xargs -P $(JOBS) -n 1 \
	  clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p $(BUILD)/lint

.PHONY: format
format: ## Format all C++ files
	@tools/packages.sh lint
	@clang-format -i $(CXX_FILES)

.PHONY: clean
clean: ## Remove all that was built
	@rm -rf $(BUILD)
