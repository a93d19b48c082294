#!/bin/sh
# Fills in the gateway's template from the environment and runs nginx in the foreground, which logs to the journal.
# Arguments are passed to nginx: -t tests the configuration.
set -eu
CDPATH= cd -- "$(dirname -- "$0")/../.."
# An environment file of an earlier release lacks these.
export "GATEWAY_REQUESTS_PER_SECOND=${GATEWAY_REQUESTS_PER_SECOND:-50}" "GATEWAY_BURST=${GATEWAY_BURST:-500}"
export "BITRIX24_EVENTS_SECRET=${BITRIX24_EVENTS_SECRET:-}"
mkdir -p "$RUNTIME_DIRECTORY/conf.d"
cp gateway/problems.conf "$RUNTIME_DIRECTORY/problems.conf"
sed "s#/tmp/nginx-#$RUNTIME_DIRECTORY/#" gateway/nginx.conf >"$RUNTIME_DIRECTORY/nginx.conf"
{
  # The services trust this address: gateway-address.nft.
  echo "proxy_bind $GATEWAY_SOURCE_ADDRESS;"
  # Standard output is a socket under systemd, and nginx can't open a socket as a file.
  # shellcheck disable=SC2016 # envsubst reads these names.
  envsubst '$GATEWAY_PORT $GATEWAY_RESOLVER $GATEWAY_CONNECTIONS_PER_CLIENT $GATEWAY_REQUESTS_PER_SECOND $GATEWAY_BURST $BITRIX24_EVENTS_ADDRESS $BITRIX24_EVENTS_SECRET' \
    <gateway/default.conf.template |
    sed 's#access_log /dev/stdout#access_log syslog:server=unix:/dev/log,nohostname,tag=gateway#'
} >"$RUNTIME_DIRECTORY/conf.d/default.conf"
exec nginx -e stderr -p "$RUNTIME_DIRECTORY" -c "$RUNTIME_DIRECTORY/nginx.conf" \
  -g "daemon off; pid $RUNTIME_DIRECTORY/nginx.pid; error_log stderr alert;" "$@"
