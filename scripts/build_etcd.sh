#!/usr/bin/env bash
# Builds etcd from its published Go module and prints the path of the program; a second run finds it built.
#
#     scripts/build_etcd.sh          etcd 3.5.21
#     scripts/build_etcd.sh 3.6.8    another release
#
# Needs Go 1.23 or later. Keeps the program in ${XDG_CACHE_HOME:-~/.cache}/understudy/etcd-VERSION.
set -euo pipefail

version=${1:-3.5.21}
home=${XDG_CACHE_HOME:-$HOME/.cache}/understudy/etcd-$version

if [[ ! -x $home/etcd ]]; then
  command -v go >/dev/null || { echo "building etcd needs Go: https://go.dev/doc/install" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  printf 'module etcd\n\ngo 1.23\n\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$version" >go.mod
  cat >main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
  echo "building etcd $version" >&2
  go mod tidy >&2
  mkdir -p "$home"
  go build -buildvcs=false -ldflags "-s -w" -o "$home/etcd.new" .
  mv "$home/etcd.new" "$home/etcd"
fi
echo "$home/etcd"
