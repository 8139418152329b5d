#!/usr/bin/env bash
# Builds kubectl from its published Go modules and prints the path of the program; a second run finds it built.
#
#     scripts/build_kubectl.sh          kubectl 1.32
#     scripts/build_kubectl.sh 1.32.5   another patch release
#
# Needs Go 1.23 or later. Keeps the program in ${XDG_CACHE_HOME:-~/.cache}/understudy/kubectl-VERSION.
set -euo pipefail

version=${1:-1.32.5}
home=${XDG_CACHE_HOME:-$HOME/.cache}/understudy/kubectl-$version

if [[ ! -x $home/kubectl ]]; then
  command -v go >/dev/null || { echo "building kubectl needs Go: https://go.dev/doc/install" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  minor=$(cut -d. -f2 <<<"$version") patch=$(cut -d. -f3 <<<"$version")
  # k8s.io/kubernetes takes its parts from its own tree; here they are replaced by the published modules.
  described=$(go mod download -json "k8s.io/kubernetes@v$version")
  requirements=$(sed -n 's/^\s*"GoMod": "\(.*\)",\?$/\1/p' <<<"$described")
  {
    printf 'module kubectl\n\ngo 1.23\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
    sed -nE "s,^\s*(k8s.io/\S+) => \./staging/.*,\t\1 => \1 v0.$minor.$patch,p" "$requirements"
    printf ')\n'
  } >go.mod
  printf '//go:build tools\n\npackage tools\n\nimport _ "k8s.io/kubernetes/cmd/kubectl"\n' >tools.go
  echo "building kubectl $version" >&2
  go mod tidy >&2
  stamp=""
  for pair in gitVersion="v$version" gitMajor=1 gitMinor="$minor"; do
    stamp+=" -X k8s.io/component-base/version.$pair"
  done
  mkdir -p "$home"
  go build -buildvcs=false -ldflags "-s -w$stamp" -o "$home/kubectl.new" k8s.io/kubernetes/cmd/kubectl
  mv "$home/kubectl.new" "$home/kubectl"
fi
echo "$home/kubectl"
