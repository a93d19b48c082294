#!/bin/sh
# Writes the files of a release into a folder: the client's package, what a machine with Docker Compose needs, what a machine without
# containers needs, and the notes.
#   sh tools/release-files.sh REGISTRY/OWNER 0.2.0 FOLDER
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
prefix=$1 version=$2
mkdir -p "$3"
folder=$(CDPATH= cd -- "$3" && pwd)
pnpm=${PNPM:-pnpm}

$pnpm --filter @contacts/client pack --pack-destination "$folder"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# files FOLDER FILE...: of the commit, what both kinds of machines need, and these files.
files() {
  target=$1
  shift
  git archive --prefix="$target/" HEAD "$@" gateway operations packages/migrations/owner.sql docs packages/client/README.md \
    packages/client/examples README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE | tar --extract --directory "$work"
}
# Readable for every user, whatever the umask is here.
pack() { tar --create --gzip --owner=0 --group=0 --mode=u+rw,go+r,go-w,a+X --file "$folder/$1-$version.tar.gz" --directory "$work" "$2"; }

# With this release's images in place of the build.
files contacts docker-compose.yml .env.example contacts
sed -i -e "s|\(CONTACTS_IMAGES:-\)localhost/contacts|\1$prefix|" -e 's|\(CONTACTS_PULL_POLICY:-\)never|\1missing|' -e '/^ *build: /d' \
  "$work/contacts/docker-compose.yml"
sed -i -e "s|\(CONTACTS_IMAGES=\)localhost/contacts|\1$prefix|" -e 's|\(CONTACTS_PULL_POLICY=\)never|\1missing|' "$work/contacts/.env.example"
pack contacts contacts

# With the built programs. They have no native code, and run on every platform.
sh tools/deploy.sh "$work/$version"
files "$version"
pack contacts-programs "$version"

# The changelog's section of this version.
awk -v heading="## [$version]" 'index($0, heading) == 1 { found = 1; next } /^## / { found = 0 } found' CHANGELOG.md >"$folder/notes.md"
[ -s "$folder/notes.md" ] || { echo "CHANGELOG.md has no section for $version." >&2; exit 1; }
(cd "$folder" && sha256sum -- *.tgz *.tar.gz >SHA256SUMS)
