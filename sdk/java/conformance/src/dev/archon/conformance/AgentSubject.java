package dev.archon.conformance;

import static dev.archon.conformance.Subject.object;
import static dev.archon.conformance.Subject.text;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import dev.archon.sdk.agent.AgentBuilder;
import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.Answer;
import dev.archon.sdk.agent.Delegation;
import dev.archon.sdk.agent.OutgoingMessage;
import dev.archon.sdk.agent.Question;
import dev.archon.sdk.agent.Reply;
import dev.archon.sdk.agent.Task;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.TaskRejectedException;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.Usage;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import sun.misc.Signal;

/** The agent: its handler executes the steps in the text of its task. */
final class AgentSubject {
  private AgentSubject() {}

  static int run() throws Exception {
    AgentBuilder builder =
        AgentServer.builder("subject").version("1.0.0").stateful().maxTasks(1_000).replyHandler(AgentSubject::work);
    ToolSubject.shared().forEach(builder::sharedTool);
    AgentServer server = builder.build();
    CountDownLatch end = new CountDownLatch(1);
    Signal.handle(new Signal("TERM"), signal -> end.countDown());
    Thread input =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) {}
              } catch (java.io.IOException closed) {
                end.countDown();
              }
              end.countDown();
            });
    input.setDaemon(true);
    input.start();
    String address = server.start();
    Subject.tell(object("ready", object("address", address, "instance_id", server.instanceId())));
    end.await();
    return server.stop(server.settings().drain()) > 0 ? 1 : 0;
  }

  private static Reply work(Task task) throws Exception {
    JsonArray steps;
    try {
      steps = JsonParser.parseString(task.text()).getAsJsonArray();
    } catch (JsonParseException | IllegalStateException none) {
      return Answer.of(task.text());
    }
    JsonArray values = new JsonArray();
    for (JsonElement step : steps) {
      String name = step.getAsJsonObject().keySet().iterator().next();
      JsonElement with = step.getAsJsonObject().get(name);
      try {
        Reply end = end(name, with);
        if (end != null) {
          return end;
        }
        JsonElement value = execute(task, name, with);
        if (value != null) {
          values.add(value);
        }
      } catch (TaskRejectedException rejected) {
        throw rejected;
      } catch (ArchonException error) {
        if (name.equals("fail")) {
          throw error;
        }
        values.add(object("error", Subject.error(error)));
      }
    }
    return Answer.of(Subject.compact(values));
  }

  private static Reply end(String name, JsonElement with) {
    switch (name) {
      case "answer":
        return Answer.of(with.getAsString());
      case "json":
        return Answer.json(Subject.compact(with));
      case "question":
        JsonObject question = with.getAsJsonObject();
        byte[] checkpoint = text(question, "checkpoint").getBytes(StandardCharsets.UTF_8);
        return Question.of(text(question, "text")).withCheckpoint(checkpoint).withId(text(question, "input_id"));
      case "fail":
        JsonObject failure = with.getAsJsonObject();
        ArchonException.Builder error = ArchonException.of(text(failure, "reason"), text(failure, "message"));
        if (failure.has("retry_delay") && !failure.get("retry_delay").isJsonNull()) {
          error.retryDelay(failure.get("retry_delay").getAsDouble());
        }
        throw error.build();
      case "reject":
        throw new TaskRejectedException(with.getAsString());
      case "panic":
        throw new IllegalStateException(with.getAsString());
      default:
        return null;
    }
  }

  private static JsonElement execute(Task task, String name, JsonElement with) throws Exception {
    double now = System.currentTimeMillis() / 1000.0;
    switch (name) {
      case "sleep" -> Thread.sleep((long) (with.getAsDouble() * 1000));
      case "block" -> block(with.getAsDouble());
      case "ignore_cancel" -> {
        JsonObject stubborn = with.getAsJsonObject();
        block(stubborn.get("seconds").getAsDouble());
        task.write(text(stubborn, "write"));
      }
      case "write" -> task.write(with.getAsString());
      case "publish" -> task.publish(with.getAsString());
      case "save" -> task.save(with.getAsString().getBytes(StandardCharsets.UTF_8));
      case "model_call" -> {
        JsonObject call = with.getAsJsonObject();
        Usage usage = Usage.tokens(call.get("input_tokens").getAsLong(), call.get("output_tokens").getAsLong());
        task.recordModelCall(text(call, "model"), "{}", "{}", now, 0, usage);
      }
      case "tool_call" -> {
        JsonObject call = with.getAsJsonObject();
        task.recordToolCall(text(call, "tool"), text(call, "arguments_json"), text(call, "result_json"), now, 0);
      }
      case "delegate" -> {
        JsonObject to = with.getAsJsonObject();
        Delegation delegation =
            to.has("capability")
                ? Delegation.toCapability(text(to, "capability"), text(to, "text"))
                : Delegation.to(text(to, "role"), text(to, "text"));
        delegation = delegation.withMemoKey(text(to, "memo_key"));
        return new JsonPrimitive(
            task.delegate(to.has("timeout") ? delegation.withTimeout(to.get("timeout").getAsDouble()) : delegation).text());
      }
      case "ask" -> {
        JsonObject question = with.getAsJsonObject();
        Question asked = Question.of(text(question, "text")).withSchema(text(question, "schema_json"));
        return new JsonPrimitive(task.ask(asked.withId(text(question, "input_id"))).text());
      }
      case "ask_secret" -> {
        return new JsonPrimitive(task.askSecret(with.getAsString()));
      }
      case "reserve" -> {
        task.reserve(with.getAsJsonObject().get("tokens").getAsLong(), 0, 1);
        return new JsonPrimitive(true);
      }
      case "send" -> {
        JsonObject message = with.getAsJsonObject();
        return new JsonPrimitive(task.send(OutgoingMessage.to(text(message, "role"), text(message, "text"))).seq());
      }
      case "receive" -> {
        JsonArray texts = new JsonArray();
        for (int count = with.getAsInt(); count > 0; count--) {
          texts.add(task.receive().text());
        }
        return texts;
      }
      case "await_update" -> task.awaitUpdates(with.getAsInt());
      case "echo" -> {
        return echo(task, with.getAsString());
      }
      default -> throw new IllegalArgumentException("no step " + name);
    }
    return null;
  }

  private static void block(double seconds) {
    double end = System.nanoTime() / 1e9 + seconds;
    while (System.nanoTime() / 1e9 < end) {
      java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
    }
  }

  private static JsonElement echo(Task task, String name) {
    return switch (name) {
      case "parts" -> Subject.json(task.parts().stream().map(AgentSubject::part).toList());
      case "context" -> Subject.json(task.context().stream().map(item -> List.of(item.role(), item.text())).toList());
      case "remaining" ->
          task.remaining().isPresent() ? new JsonPrimitive(task.remaining().getAsDouble()) : JsonNull.INSTANCE;
      case "metadata" -> Subject.json(task.metadata());
      case "trace" -> new JsonPrimitive(task.trace().traceparent());
      case "history" -> Subject.json(task.history().stream().map(each -> List.of(each.role(), each.text())).toList());
      case "checkpoint" -> new JsonPrimitive(new String(task.checkpoint(), StandardCharsets.UTF_8));
      case "answers" -> {
        JsonObject answers = new JsonObject();
        task.answers().forEach((id, answer) -> answers.addProperty(id, answer.text()));
        yield answers;
      }
      case "attempt" -> new JsonPrimitive(task.attempt());
      case "task_id" -> new JsonPrimitive(task.taskId());
      case "run_id" -> new JsonPrimitive(task.runId());
      case "session_id" -> new JsonPrimitive(task.sessionId());
      case "targets" -> Subject.json(task.delegationTargets().stream().map(target -> target.role()).toList());
      case "chain" -> Subject.json(task.delegationChain());
      case "budget" -> budget(task);
      case "expected_output" -> new JsonPrimitive(task.expectedOutput());
      default -> throw new IllegalArgumentException("a task has no " + name);
    };
  }

  private static String part(Part part) {
    if (part.content() instanceof Part.Text text) {
      return text.text();
    }
    return part.content() instanceof Part.Json json ? json.json() : part.content() instanceof Part.Url url ? url.url() : "";
  }

  private static JsonElement budget(Task task) {
    JsonObject budget = new JsonObject();
    if (task.budget() != null) {
      task.proto().getBudget().getAllFields()
          .forEach((field, value) -> budget.add(field.getName(), Subject.json(value instanceof Number ? value : task.budget().maxTime())));
    }
    return budget;
  }
}
