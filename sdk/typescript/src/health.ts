/** The service of health checks (https://github.com/grpc/grpc/blob/master/doc/health-checking.md). */
import { Health, HealthCheckResponse_ServingStatus as ServingStatus } from "./api/grpc/health/v1/health_pb.js";
import { NotFound } from "./errors.js";
import type { ServedCall, Service } from "./server.js";

/** Reports SERVING for services that are served, NOT_SERVING after the shutdown has begun. */
export class HealthService {
  readonly #names = new Set<string>();
  readonly #watchers = new Set<() => void>();
  #isDown = false;

  /** Reports that services are served. */
  serve(names: readonly string[]): void {
    for (const name of names) this.#names.add(name);
    this.#changed();
  }

  /** Reports NOT_SERVING for all services from now on. */
  shutDown(): void {
    this.#isDown = true;
    this.#changed();
  }

  readonly service: Service = {
    descriptor: Health,
    unary: {
      check: ({ service }: { service: string }) => {
        const status = this.#status(service);
        if (status === ServingStatus.SERVICE_UNKNOWN) throw new NotFound(`no service is named '${service.slice(0, 200)}'`);
        return { status };
      },
    },
    streaming: { watch: ({ service }: { service: string }, call: ServedCall) => this.#watch(service, call.signal) },
  };

  async *#watch(service: string, signal: AbortSignal): AsyncGenerator<object> {
    let told = -1;
    while (!signal.aborted) {
      const status = this.#status(service);
      if (status !== told) yield { status };
      told = status;
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.#watchers.delete(done);
          signal.removeEventListener("abort", done);
          resolve();
        };
        this.#watchers.add(done);
        signal.addEventListener("abort", done, { once: true });
        if (signal.aborted || this.#status(service) !== told) done();
      });
    }
  }

  #status(service: string): ServingStatus {
    if (!this.#names.has(service)) return ServingStatus.SERVICE_UNKNOWN;
    return this.#isDown ? ServingStatus.NOT_SERVING : ServingStatus.SERVING;
  }

  #changed(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}
