module designer

go 1.24.0

require (
	github.com/archon-mesh/archon/sdk/go v0.0.0
	go.opentelemetry.io/otel v1.39.0
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.39.0
	go.opentelemetry.io/otel/sdk v1.39.0
)

replace github.com/archon-mesh/archon/sdk/go => ../../../sdk/go
