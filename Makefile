# The front door: each target prepares what it needs and calls Meson. The build itself is described in meson.build.
#
#   make            build/pawl, build/libpawl.so, build/libpawl.a and the modules; says which engines there are. No tests
#   make run        builds, and shows the main job in the terminal
#   make test       every test, with gcc, clang and sanitizers; ends with "N passed, M failed"
#   make check      the plain build, every engine, every promise once: a few minutes; ONLY=redis selects by a word
#   make bench      figures against their floor and their peers; ROWS=1,2,17 selects rows of the table
#   make install    PREFIX=/usr/local DESTDIR=
#   make uninstall  what the last make install put there, same DESTDIR
#   make dist       dist/pawl-VERSION.tar.gz: the files in git, the same bytes wherever it is made
#   make deb        dist/*.deb and the source package; make rpm: dist/*.rpm
#   make static     dist/pawl-VERSION-linux-MACHINE: the command in one file that needs no library
#   make check-style  layout, layers, symbols, headers
#   make fuzz       fuzzes for SECONDS=60 each
#   make models     searches the models of the protocols, all of them; some minutes
#   make clean
BUILD = build
PREFIX = /usr/local
SECONDS = 60
ROWS =
OPTIONS =
export ONLY
MAKEFLAGS += --no-print-directory

all: build
	@$(BUILD)/pawl engines

build:
	@[ -f $(BUILD)/build.ninja ] || .ci/packages --say build
	@.ci/configure $(BUILD) --prefix=$(PREFIX) $(OPTIONS)
	@if [ -t 1 ]; then ninja -C $(BUILD); else ninja -C $(BUILD) --quiet; fi

run:
	@[ -f $(BUILD)/build.ninja ] || .ci/packages build
	@$(MAKE) build
	@$(BUILD)/pawl demo

test:
	@.ci/packages build test
	@tests/run

check:
	@.ci/packages build test
	@tests/run --check $${ONLY:+--only "$$ONLY"}

check-style:
	@.ci/packages build test
	@tests/run --suite style

bench:
	@bench/run $(if $(ROWS),--rows $(ROWS)) --check $(BUILD)
	@.ci/packages build bench
	@$(MAKE) build OPTIONS=-Dbench=true
	@bench/run $(if $(ROWS),--rows $(ROWS)) $(BUILD)

fuzz:
	@.ci/packages build test
	@tests/fuzz/run $(SECONDS)

models:
	@.ci/packages models
	@models/run

install: build
	@meson configure $(BUILD) --prefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --quiet --strip
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

uninstall:
	@DESTDIR=$(DESTDIR) .ci/uninstall $(BUILD)

dist:
	@packaging/source.sh dist

deb:
	@.ci/packages build deb
	@packaging/deb.sh dist

rpm:
	@.ci/packages build rpm
	@packaging/rpm.sh dist

static:
	@.ci/packages build static
	@packaging/static.sh dist

clean:
	rm -rf $(BUILD) build-clang build-asan build-tsan build-fuzz build-deb build-rpm build-static

.PHONY: all build run test check check-style bench fuzz models install uninstall dist deb rpm static clean
