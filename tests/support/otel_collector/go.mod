// OpenTelemetry's collector for the tests: `make otelcol` builds it. Keep all of its modules at one release.
module ringfence.invalid/tests/otelcol

go 1.26.0

require (
	go.opentelemetry.io/collector/exporter/otlphttpexporter v0.165.0
	go.opentelemetry.io/collector/otelcol v0.165.0
	go.opentelemetry.io/collector/receiver/otlpreceiver v0.165.0
)
