#!/usr/bin/env bash
# Installs the real MCP servers and clients of the end to end tests, and the official conformance runner, into .e2e/, from the pins beside this script.
#
# Five tiers: node, venv (Python), promtool, faketime and parsing. Each has a stamp with the hash of its pins, so a second run is a matter of milliseconds. A
# tier that cannot be installed is named loudly and its tests are skipped; with CI=true that is a failure.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
e2e=$(cd "$here/../.." && pwd)/.e2e
mkdir -p "$e2e"
missing=()

# tier NAME PINS… : runs install_NAME in an empty .e2e/NAME unless it is there already, made from the same pins by the same script.
tier() {
  local name=$1 dir=$e2e/$1 stamp
  stamp=$(cd "$here" && cat setup.sh "${@:2}" | sha256sum | cut -d' ' -f1)
  [[ -f $dir/stamp && $(<"$dir/stamp") == "$stamp" ]] && return
  echo "e2e: installing tier '$name'" >&2
  rm -rf "$dir" && mkdir -p "$dir"
  # Not inside an `if`: bash ignores `set -e` there, and a failed step would pass for a success.
  set +e
  (set -e; "install_$name" "$dir") >"$e2e/$name.log" 2>&1
  local failed=$?
  set -e
  if ((failed == 0)); then
    echo "$stamp" >"$dir/stamp"
  else
    tail -n 15 "$e2e/$name.log" >&2
    rm -rf "$dir"
    missing+=("$name")
  fi
}

install_node() {
  cp "$here/package.json" "$here/package-lock.json" "$1"
  # The engines of the packages are met by the Node below, not by the one that runs npm. `npm install` keeps to the lock; `npm ci` would want a
  # line for the native code of every platform in it, and not every registry serves them all.
  (cd "$1" && npm install --ignore-scripts --no-audit --no-fund --engine-strict=false --omit-lockfile-registry-resolved)
  local node
  node=$(ls "$1"/node_modules/node-linux-*/bin/node 2>/dev/null || command -v node)
  "$node" -e 'const [a, b] = process.versions.node.split(".").map(Number); if (a < 22 || (a === 22 && b < 19)) throw "Node 22.19 or newer is needed"'
  ln -s "$node" "$1/node"
}

install_venv() {
  python3 -m venv "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
}

# Unpacked, not installed: the package would bring a running Prometheus with it.
install_promtool() {
  if command -v promtool; then
    ln -s "$(command -v promtool)" "$1/promtool"
    return
  fi
  cd "$1"
  apt-get download prometheus || { apt-get update && apt-get download prometheus; }
  dpkg -x prometheus_*.deb unpacked
  ln -s unpacked/usr/bin/promtool promtool
  rm prometheus_*.deb
  ./promtool --version
}

# A library that lets the clock of one process jump.
install_faketime() {
  local library
  # A glob that matches nothing stays as it is written, and is no file then.
  library=$(echo /usr/lib/*/faketime/libfaketime.so.1)
  if [[ ! -f $library ]]; then
    (cd "$1" && { apt-get download libfaketime || { apt-get update && apt-get download libfaketime; }; } && dpkg -x libfaketime_*.deb unpacked)
    library=$(ls "$1"/unpacked/usr/lib/*/faketime/libfaketime.so.1)
  fi
  ln -s "$library" "$1/libfaketime.so.1"
  LD_PRELOAD=$1/libfaketime.so.1 FAKETIME="@2020-01-01 00:00:00" date +%Y | grep -q 2020
}

# The files of the JSON Parsing Test Suite (github.com/nst/JSONTestSuite, MIT), which the source of this crate has among its tests. Cargo brings it, so
# that it comes from where all other crates come from.
install_parsing() {
  cd "$1"
  mkdir -p src && touch src/lib.rs
  printf '[package]\nname = "parsing"\nversion = "0.0.0"\nedition = "2024"\n[dependencies]\nactson = "=2.1.0"\n[workspace]\n' >Cargo.toml
  cargo vendor --quiet >/dev/null
  grep -q '"package":"78deb7b1fc041f9faa47b5f4c05a48362c5cbb18308bf7f9641e200f56a26a71"' vendor/actson/.cargo-checksum.json
  mv vendor/actson/tests/json_test_suite/test_parsing .
  rm -r vendor src Cargo.toml Cargo.lock
  ls test_parsing/y_structure_lonely_true.json
}

tier node package.json package-lock.json
tier venv requirements.txt
tier promtool
tier faketime
tier parsing

# Node looks for packages beside the script that imports them, and in the folders above: this serves conformance/ too.
rm -f "$here/node_modules"
ln -sfn ../.e2e/node/node_modules "$here/../node_modules"

if ((${#missing[@]})); then
  rm -f "$e2e/ready"
  echo "e2e: NOT INSTALLED: ${missing[*]}. The end to end tests that need them are SKIPPED; the logs are in .e2e/*.log" >&2
  [[ ${CI:-} == true ]] && exit 1
  exit 0
fi
touch "$e2e/ready"
