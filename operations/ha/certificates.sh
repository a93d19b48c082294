#!/bin/sh
# A certificate for each database machine, valid for ten years: certificates.sh FOLDER ADDRESS...
# FOLDER keeps the authority that signs them, for twenty years, so that it can sign others later. Needs OpenSSL 3.
set -eu
umask 077
folder=$1
shift
new_certificate() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc "$@"; }
mkdir -p "$folder"
cd "$folder"
[ -e ca.key ] || new_certificate -days 7300 -subj /CN=contacts-ha -keyout ca.key -out ca.crt
for address; do
  mkdir -p "$address"
  cp ca.crt "$address"
  new_certificate -days 3650 -CA ca.crt -CAkey ca.key -subj "/CN=$address" -addext "subjectAltName=IP:$address" \
    -addext 'basicConstraints=critical,CA:false' -addext 'extendedKeyUsage=serverAuth,clientAuth' \
    -keyout "$address/machine.key" -out "$address/machine.crt"
done
