import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResourcesSync, envDetectorSync } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

/** Exports spans as the environment says (OTEL_EXPORTER_OTLP_ENDPOINT). The returned function sends the last ones. */
export function tracing(): () => Promise<void> {
  if (!process.env["OTEL_EXPORTER_OTLP_ENDPOINT"]) return async () => {};
  const batches = new BatchSpanProcessor(new OTLPTraceExporter(), { scheduledDelayMillis: 200 });
  const provider = new NodeTracerProvider({
    resource: detectResourcesSync({ detectors: [envDetectorSync] }), // OTEL_SERVICE_NAME
    spanProcessors: [batches],
  });
  provider.register();
  return () => provider.shutdown();
}
