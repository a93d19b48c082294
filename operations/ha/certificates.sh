#!/bin/sh
# A certificate for each database machine, valid for ten years: certificates.sh FOLDER ADDRESS...
# For a machine that only reads Patroni: certificates.sh FOLDER --reader ADDRESS
# FOLDER keeps the two authorities that sign them, for twenty years, so that they can sign others later. That of the readers is
# apart, because etcd lets every certificate of the other one write. Needs OpenSSL 3.
set -eu
umask 077
folder=$1
shift
authority=ca usage=serverAuth,clientAuth
if [ "$1" = --reader ]; then
  authority=readers usage=clientAuth
  shift
fi
new_certificate() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc "$@"; }
mkdir -p "$folder"
CDPATH= cd -- "$folder"
for name in ca readers; do
  [ -e $name.key ] || new_certificate -days 7300 -subj /CN=contacts-ha-$name -addext 'keyUsage=critical,keyCertSign,cRLSign' \
    -keyout $name.key -out $name.crt
done
for address; do
  mkdir -p "$address"
  cp ca.crt "$address"
  cat ca.crt readers.crt >"$address/clients.crt"
  new_certificate -days 3650 -CA $authority.crt -CAkey $authority.key -subj "/CN=$address" -addext "subjectAltName=IP:$address" \
    -addext 'basicConstraints=critical,CA:false' -addext "extendedKeyUsage=$usage" \
    -keyout "$address/machine.key" -out "$address/machine.crt"
done
