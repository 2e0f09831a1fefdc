# What can be done with this repository. `make` alone lists it. Every target sets up what it
# needs first: nothing has to be installed by hand but Go and make.

# The toolchain that the module is built with; Go fetches it.
export GOTOOLCHAIN := go1.27.3+auto

# BROKERS is the address, host:port, of a Kafka to use instead of one that is started.
BROKERS ?=
# TESTFLAGS and PKGS narrow `make test` down, as TESTFLAGS='-run Memo -v' PKGS=./exec/...
TESTFLAGS ?=
PKGS ?= ./...
# DEMOFLAGS, BENCHFLAGS and CHAOSFLAGS are passed on to the programs; -h lists what they take.
DEMOFLAGS ?=
BENCHFLAGS ?=
CHAOSFLAGS ?=

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# What is tested once more without cgo: all that needs no broker.
PURE := ./codec/... ./kvstore/... ./ops/... ./topology/... ./exec/commitlog/... ./testkit ./testkit/memlog/...

.DEFAULT_GOAL := help
.PHONY: help deps test-deps demo test bench chaos lint fmt update-deps-list clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "  BROKERS=host:9092 makes demo, test and bench use that Kafka"

deps: ## install what building needs: a C++ compiler and RocksDB
	@.ci/setup build

test-deps: ## install what tests on a real Kafka need besides: Java and Maven
	@.ci/setup build test

demo: deps ## run the flights example on an embedded Kafka, or on BROKERS
	@go run ./examples/02-flights $(if $(BROKERS),-brokers $(BROKERS)) $(DEMOFLAGS)

test: test-deps ## run all tests, on a real Kafka too
	$(if $(BROKERS),WICKER_KAFKA=$(BROKERS) )go run ./internal/withkafka go test -race -shuffle=on -timeout 25m $(TESTFLAGS) $(PKGS)
	CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 go test -shuffle=on -timeout 10m $(PURE)

bench: test-deps ## measure beside Kafka Streams on a real Kafka
	go run ./bench $(if $(BROKERS),-brokers $(BROKERS)) $(BENCHFLAGS)

chaos: test-deps ## run an application under faults on a Kafka of three nodes, CHAOSFLAGS='-seeds 20' for more
	go run ./chaos $(CHAOSFLAGS)

lint: deps ## check format, vet, staticcheck, go.mod, imports, dependencies, docs
	@files="$$("$$(go env GOROOT)/bin/gofmt" -l .)"; [ -z "$$files" ] || \
		{ echo "lint: not formatted, run make fmt:"; echo "$$files"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	go mod tidy -diff
	go test -count=1 ./internal/lint

fmt: ## format the source
	go fmt ./...

update-deps-list: ## write deps.txt anew
	go test -count=1 ./internal/lint -run TestDependencies -update

clean: ## remove what was built and what the demo keeps
	rm -rf .cache bench/results/raw
	go clean
