package dev.archon.conformance;

import static dev.archon.conformance.Subject.object;
import static dev.archon.conformance.Subject.text;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.archon.sdk.Client;
import dev.archon.sdk.ConverseStream;
import dev.archon.sdk.RunWatch;
import dev.archon.sdk.Strategy;
import dev.archon.sdk.Submission;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.memory.MemoryGraphClient;
import dev.archon.sdk.registry.Registration;
import dev.archon.sdk.registry.RegistryClient;
import dev.archon.sdk.runview.RunView;
import dev.archon.sdk.types.Run;
import dev.archon.sdk.types.RunEvent;
import io.grpc.Context;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/** The client: each line of standard input is a call, on a thread of its own. */
final class ClientSubject {
  private final Client client;
  private final Map<String, Thread> running = new ConcurrentHashMap<>();

  private ClientSubject(Client client) {
    this.client = client;
  }

  static int run() throws Exception {
    try (Client client = new Client(System.getenv("ARCHON_TARGET"))) {
      ClientSubject calls = new ClientSubject(client);
      Subject.tell(object("ready", new JsonObject()));
      BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        calls.begin(JsonParser.parseString(line).getAsJsonObject());
      }
    }
    return 0;
  }

  private void begin(JsonObject line) {
    if (line.has("stop")) {
      Thread call = running.get(line.get("stop").toString());
      if (call != null) {
        call.interrupt();
      }
      return;
    }
    String id = line.get("id").toString();
    Thread call = new Thread(() -> make(line), "call-" + id);
    call.setDaemon(true);
    running.put(id, call);
    call.start();
  }

  private void make(JsonObject line) {
    JsonElement id = line.get("id");
    Context within = Context.current();
    if (line.has("trace")) {
      TraceContext trace = new TraceContext(text(line, "trace"), "");
      within = within.withValue(CallContext.KEY, CallContext.current().withTrace(trace));
    }
    if (line.has("deadline") && !line.get("deadline").isJsonNull()) {
      double end = System.nanoTime() / 1e9 + line.get("deadline").getAsDouble();
      CallContext now = CallContext.current();
      within = within.withValue(CallContext.KEY, new CallContext(CallContext.until(end), now.trace(), "", "", 0, "", null));
    }
    JsonObject outcome;
    try {
      outcome = object("id", id, "result", within.call(() -> call(text(line, "call"), line)));
    } catch (ArchonException error) {
      outcome = object("id", id, "error", Subject.error(error));
    } catch (InterruptedException stopped) {
      outcome = object("id", id, "error", Subject.error(ArchonException.of(Reasons.CANCELLED, "stopped").build()));
    } catch (Exception bug) {
      outcome = object("id", id, "error", object("code", "INTERNAL", "reason", "INTERNAL", "message", bug.toString()));
    }
    Thread.interrupted();
    Subject.tell(outcome);
    running.remove(id.toString());
  }

  private JsonElement call(String name, JsonObject line) throws Exception {
    String runId = text(line, "run_id");
    switch (name) {
      case "submit":
        return object("run_id", client.submit(submission(line)).runId());
      case "run":
        return Subject.json(client.run(submission(line)));
      case "wait":
        return state(client.waitFor(runId, line.has("timeout") ? line.get("timeout").getAsDouble() : Double.MAX_VALUE));
      case "watch":
        return watch(line, runId);
      case "converse":
        return converse(line);
      case "get":
        return state(client.get(runId));
      case "cancel":
        return state(client.cancel(runId, ""));
      case "pause":
        return state(client.pause(runId));
      case "resume":
        return state(client.resume(runId));
      case "respond":
        return object("run_id", client.respond(runId, text(line, "input_id"), text(line, "text")).runId());
      case "fork":
        return object("run_id", client.fork(runId, line.has("after_seq") ? line.get("after_seq").getAsLong() : 0).runId());
      case "plan":
        return object("tasks", client.plan(Submission.of(text(line, "goal"))).steps().stream().map(s -> s.role()).toList());
      case "view":
        return view(runId);
      case "instances":
        try (RegistryClient registry = new RegistryClient(System.getenv("ARCHON_REGISTRY"))) {
          return Subject.json(registry.resolve(text(line, "role")).stream().map(Registration::instanceId).toList());
        }
      case "pull":
        try (MemoryGraphClient memory = new MemoryGraphClient(System.getenv("ARCHON_MEMORY"), runId)) {
          return Subject.json(memory.pullFor(text(line, "role")).stream().map(i -> List.of(i.role(), i.content())).toList());
        }
      case "use_tool":
        return ToolSubject.call(line);
      case "close":
        client.close();
        return new JsonObject();
      default:
        throw new IllegalArgumentException("no call " + name);
    }
  }

  private static Submission submission(JsonObject line) {
    Submission submission = Submission.of(text(line, "goal")).requestId(text(line, "request_id"));
    submission.strategy(Strategy.of(text(line, "strategy")));
    if (line.has("roles")) {
      line.getAsJsonArray("roles").forEach(role -> submission.roles(role.getAsString()));
    }
    return line.has("timeout") && !line.get("timeout").isJsonNull()
        ? submission.timeout(line.get("timeout").getAsDouble())
        : submission;
  }

  private JsonElement watch(JsonObject line, String runId) {
    try (RunWatch watch = client.watch(runId, line.has("after_seq") ? line.get("after_seq").getAsLong() : 0)) {
      for (RunEvent event : watch) {
        Subject.tell(object("id", line.get("id"), "event", object("seq", event.seq(), "kind", event.type())));
      }
      return object("last_seq", watch.lastSeq());
    }
  }

  private JsonElement converse(JsonObject line) throws InterruptedException {
    Map<String, String> outputs = new HashMap<>();
    JsonArray results = new JsonArray();
    try (ConverseStream stream = client.converse()) {
      JsonArray runs = new JsonArray();
      for (JsonElement goal : line.getAsJsonArray("goals")) {
        runs.add(stream.submit(Submission.of(goal.getAsString())).runId());
      }
      stream.done();
      for (RunEvent event = stream.next(); event != null; event = stream.next()) {
        if (event.isLast()) {
          outputs.put(event.runId(), output(client.get(event.runId())));
        }
      }
      runs.forEach(run -> results.add(outputs.get(run.getAsString())));
    }
    return results;
  }

  private JsonElement view(String runId) throws InterruptedException {
    RunView view = new RunView();
    try (RunWatch watch = client.watch(runId, 0)) {
      watch.forEach(view::apply);
    }
    JsonObject tasks = new JsonObject();
    view.tasks()
        .forEach(
            (id, task) ->
                tasks.add(
                    id, object("role", task.role(), "state", task.state().name(), "attempts", task.attempts().size())));
    return object("state", view.state().name(), "tasks", tasks, "output", output(client.get(runId)));
  }

  private static JsonElement state(Run run) {
    return run == null ? JsonNull.INSTANCE : object("run_id", run.runId(), "state", run.state().name(), "output", output(run));
  }

  private static String output(Run run) {
    return run.answers().stream().map(answer -> answer.text()).collect(Collectors.joining("\n\n"));
  }
}
