#!/bin/sh
# Builds the images of a release. Further words are options of `docker build`:
#   sh tools/release-images.sh REGISTRY/OWNER 0.2.0 --platform linux/amd64,linux/arm64 --provenance mode=max --sbom true --push
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
prefix=$1 version=$2
shift 2
for image in personal-contacts company-contacts crm-sync cli; do
  docker build --target "$image" --tag "$prefix/$image:$version" "$@" .
done
