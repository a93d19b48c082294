#!/bin/sh
# Reports when the certificate in the file TLS_CERTIFICATE ends to Prometheus's node exporter, for the alert CertificateEnds. A
# file that can't be read counts as a certificate that has ended. Without TLS_CERTIFICATE nothing is reported.
set -eu
umask 022
[ -d "$BACKUP_METRICS_DIRECTORY" ] || exit 0
file=$BACKUP_METRICS_DIRECTORY/contacts-certificate.prom
if [ -z "${TLS_CERTIFICATE-}" ]; then
	rm -f "$file"
	exit 0
fi
if line=$(openssl x509 -in "$TLS_CERTIFICATE" -noout -enddate); then
	not_after=$(date -d "${line#notAfter=}" +%s)
else
	not_after=0
fi
cat >"$file.part" <<END
# HELP contacts_certificate_not_after_timestamp_seconds When the gateway's certificate ends.
# TYPE contacts_certificate_not_after_timestamp_seconds gauge
contacts_certificate_not_after_timestamp_seconds $not_after
END
mv "$file.part" "$file"
