# Every go test here has a limit, so that nothing hangs a machine. `make help` lists the targets.

GO ?= go
# The checks are pinned: a new version of them must not break a build that was green.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# What a unit is and what runs the built binary are tested apart: the second kind measures times and memory and so
# runs one package at a time.
UNITS = ./engine/... ./owner/... ./declare/... ./cell/... ./httpapi/... ./cmd/... ./test
PROCESSES = ./test/process/... ./test/tour/... ./test/soak/... ./test/memory/...

# Package:target, one run of the fuzzer each.
FUZZ = engine:FuzzEngine engine:FuzzParseID engine:FuzzParseSettings \
	httpapi:FuzzPush httpapi:FuzzAck httpapi:FuzzQuery httpapi:FuzzString httpapi:FuzzSettings
FUZZTIME ?= 30s
SOAK ?= 10m
COUNT ?= 6

# A checkout that belongs to another user than the one who builds has no version to stamp; that is no reason to fail.
TESTFLAGS = GOFLAGS='$(filter-out -buildvcs=%,$(shell $(GO) env GOFLAGS)) -buildvcs=false'

# The targets of test come in their order, also under make -j.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build run deps test test-short units processes race lint vet fmt-check fmt staticcheck bench bench-go soak fuzz cover clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the broker into ./queencell
	$(GO) build -trimpath -o queencell ./cmd/queencell

run: ## run the broker, with its declarations in queencell.db
	$(GO) run ./cmd/queencell

# gcc is what the race detector links with, curl is what the tour in README.md uses.
deps: ## install what the tests need: Debian packages (as root) and Go modules
	@missing=; \
	for tool in gcc curl; do command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	if command -v gcc >/dev/null 2>&1 && ! echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1; then missing="$$missing libc6-dev"; fi; \
	case "$$missing" in *gcc*) missing="$$missing libc6-dev";; esac; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then \
			echo "the tests need these, please install them:$$missing" >&2; exit 1; \
		fi; \
		echo "installing:$$missing"; \
		DEBIAN_FRONTEND=noninteractive apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates $$missing >/dev/null; \
	fi
	$(GO) mod download

test: deps lint units processes ## all checks and all tests, with the race detector (about 7 minutes on 2 cores)

test-short: ## the tests that need no built binary, without the race detector and the long runs
	$(TESTFLAGS) $(GO) test -short -timeout 5m $(UNITS)

units:
	$(TESTFLAGS) $(GO) test -race -timeout 10m $(UNITS)

# -count 1: go test does not see what the broker that a test starts is built of, and would call an old result good.
processes:
	$(TESTFLAGS) $(GO) test -race -count 1 -p 1 -timeout 10m $(PROCESSES)

race: units processes ## all tests with the race detector, without the checks

lint: vet fmt-check staticcheck ## go vet, gofmt and staticcheck

vet:
	$(TESTFLAGS) $(GO) vet ./...

fmt-check:
	@wrong=$$(gofmt -l -s .); if [ -n "$$wrong" ]; then echo "run 'make fmt' for:" $$wrong >&2; exit 1; fi

fmt: ## format all Go files
	gofmt -l -s -w .

staticcheck:
	$(TESTFLAGS) $(GO) run $(STATICCHECK) ./...

bench: ## measure the broker, and the peers that are installed; BENCH="-run p1,p2 -n 200000" for less
	$(GO) run ./test/bench $(BENCH)

bench-go: ## Go benchmarks, COUNT times each, for benchstat
	$(TESTFLAGS) $(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) -timeout 60m ./engine ./owner ./cell ./httpapi

soak: ## random traffic for SOAK (10m) with the race detector
	$(TESTFLAGS) SOAK=$(SOAK) $(GO) test -race -count 1 -v -timeout 25h -run '^TestSoak$$' ./test/soak

# The minimiser would use the time up on the long inputs of the engine.
fuzz: ## each fuzz target for FUZZTIME (30s)
	@set -e; for target in $(FUZZ); do \
		echo "$$target"; \
		$(TESTFLAGS) $(GO) test -run '^$$' -fuzz "^$${target#*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x -timeout 1h ./$${target%%:*}; \
	done

cover: ## coverage of the packages by their own tests, in cover.out
	$(TESTFLAGS) $(GO) test -short -timeout 10m -coverprofile cover.out ./engine/... ./owner/... ./declare/... ./cell/... ./httpapi/... ./cmd/...
	$(GO) tool cover -func cover.out | tail -n 1

clean: ## remove what the targets above made
	rm -f queencell cover.out
