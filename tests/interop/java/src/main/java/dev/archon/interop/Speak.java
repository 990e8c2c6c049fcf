package dev.archon.interop;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AgentServiceGrpc;
import dev.archon.api.agent.v1.Heartbeat;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.agent.v1.Ready;
import dev.archon.api.agent.v1.SessionRequest;
import dev.archon.api.agent.v1.SessionResponse;
import dev.archon.api.agent.v1.TaskResult;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.TaskState;
import dev.archon.api.orchestrator.v1.OrchestratorServiceGrpc;
import dev.archon.api.orchestrator.v1.RunEvent;
import dev.archon.api.orchestrator.v1.SubmitRunRequest;
import dev.archon.api.orchestrator.v1.WatchRunRequest;
import io.grpc.Channel;
import io.grpc.stub.StreamObserver;

/** The session of the smallest member, and a client. Both must compile against the stubs. */
final class Speak extends AgentServiceGrpc.AgentServiceImplBase {
  private final String instanceId;

  Speak(String instanceId) {
    this.instanceId = instanceId;
  }

  @Override
  public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> out) {
    return new StreamObserver<>() {
      @Override
      public void onNext(SessionRequest message) {
        for (OrchestratorFrame frame : message.getFramesList()) {
          AgentFrame.Builder said = AgentFrame.newBuilder();
          switch (frame.getFrameCase()) {
            case OPEN -> said.setReady(Ready.newBuilder().setInstanceId(instanceId).setProtocol(1).setMaxTasks(1));
            case HEARTBEAT ->
                said.setHeartbeat(Heartbeat.newBuilder().setEcho(frame.getHeartbeat().getCounter()));
            case ASSIGN_TASK -> said.setTask(frame.getTask()).setResult(answer(frame));
            default -> {
              continue; // the smallest member ignores frames that it does not support
            }
          }
          out.onNext(SessionResponse.newBuilder().addFrames(said).build());
        }
      }

      @Override
      public void onError(Throwable broken) {}

      @Override
      public void onCompleted() {
        out.onCompleted();
      }
    };
  }

  private static TaskResult answer(OrchestratorFrame frame) {
    String text = frame.getAssignTask().getInput(0).getText();
    return TaskResult.newBuilder()
        .setState(TaskState.TASK_STATE_COMPLETED)
        .addOutput(Part.newBuilder().setText("heard: " + text))
        .build();
  }

  static long lastSeq(Channel channel, String goal) {
    var orchestrator = OrchestratorServiceGrpc.newBlockingStub(channel);
    var request = SubmitRunRequest.newBuilder().addGoal(Part.newBuilder().setText(goal)).build();
    var watch = WatchRunRequest.newBuilder().setRunId(orchestrator.submitRun(request).getRun().getRunId()).build();
    long seq = 0;
    for (var batches = orchestrator.watchRun(watch); batches.hasNext(); ) {
      for (RunEvent event : batches.next().getEventsList()) {
        seq = event.getEventCase() == RunEvent.EventCase.TEXT_DELTA ? seq : event.getSeq();
      }
    }
    return seq;
  }
}
