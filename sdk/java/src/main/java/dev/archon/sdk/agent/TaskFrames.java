package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.agent.v1.Reject;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.FrameChannel.Verdict;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Wire;

/** Serves the frames of a session that name a task. Used by the loop. */
final class TaskFrames {
  private final AgentCore agent;
  private final AttemptTable attempts;
  private final AgentSession session;

  TaskFrames(AgentCore agent, AgentSession session) {
    this.agent = agent;
    this.attempts = agent.attempts();
    this.session = session;
  }

  void serve(OrchestratorFrame frame) {
    TaskRef ref = frame.getTask();
    Attempt held = attempts.newest(ref.getTaskId());
    if (held == null) {
      Rejections.checkRef(ref);
    } else if (!held.heeds(session.orchestratorId(), ref)) {
      throw Rejections.notYours(ref);
    }
    attempts.checkEpoch(ref, held);
    Attempt attempt = held != null && held.ref().getAttempt() == ref.getAttempt() ? held : null;
    if (attempt != null) {
      if (frame.getAck() != 0) {
        attempt.acked(frame.getAck());
      }
      boolean isAssignment = frame.getFrameCase() == OrchestratorFrame.FrameCase.ASSIGN_TASK;
      if (frame.getSequence() != 0
          && !isAssignment
          && attempt.channel().take(frame.getSequence()) != Verdict.APPLY) {
        outOfOrder(attempt, frame);
        return;
      }
    }
    apply(frame, attempt);
    if (attempt != null && !attempt.isWorking() && !attempt.channel().hasUnacked()) {
      attempts.drop(attempt); // its result is acked
    }
  }

  private void apply(OrchestratorFrame frame, Attempt attempt) {
    switch (frame.getFrameCase()) {
      case ASSIGN_TASK -> assign(frame, attempt);
      case CANCEL_TASK -> {
        if (attempt != null) {
          cancel(attempt, frame);
        }
      }
      case ADOPT_TASK -> adopt(frame, attempt);
      case DELEGATE_RESULT, BUDGET_GRANT, INPUT, MESSAGE_RESULT -> {
        if (attempt != null) {
          attempt.calls().answered(frame);
        }
      }
      case UPDATE_MEMORY -> {
        if (attempt != null) {
          attempt.updated(frame.getUpdateMemory());
        }
      }
      case MESSAGE -> {
        if (attempt != null) {
          attempt.received(frame.getMessage());
        }
      }
      case DISCARDED -> {
        if (attempt != null) {
          attempts.drop(attempt);
        }
      }
      case FAILURE -> failure(frame, attempt);
      case FRAME_NOT_SET -> {
        boolean isAckAlone =
            frame.getAck() != 0 && frame.getSequence() == 0 && frame.getUnknownFields().asMap().isEmpty();
        if (!isAckAlone) {
          throw Rejections.unknown("");
        }
      }
      default -> throw Rejections.unknown(AgentSession.armOf(frame));
    }
  }

  private static void cancel(Attempt attempt, OrchestratorFrame frame) {
    attempt.cancel(!frame.getCancelTask().getReason().equals(Frames.SUPERSEDED));
  }

  private static void outOfOrder(Attempt attempt, OrchestratorFrame frame) {
    if (frame.getSequence() > attempt.channel().received()) {
      throw Rejections.gap(frame.getSequence(), attempt.channel().received() + 1);
    }
    if (frame.getFrameCase() == OrchestratorFrame.FrameCase.CANCEL_TASK) {
      cancel(attempt, frame); // idempotent, and a new owner that counts from 1 must be obeyed
    }
  }

  private void assign(OrchestratorFrame frame, Attempt held) {
    if (held != null) {
      held.channel().take(frame.getSequence()); // a copy: the task is in progress
      return;
    }
    if (frame.getSequence() > 1) {
      throw Rejections.gap(frame.getSequence(), 1);
    }
    TaskRef ref = frame.getTask();
    Attempt newest = attempts.newest(ref.getTaskId());
    if (newest != null && newest.ref().getAttempt() > ref.getAttempt()) {
      return; // a late frame of a superseded attempt
    }
    if (attempts.isOver(ref)) {
      return;
    }
    ArchonException refusal = agent.refusal(newest, session);
    if (refusal != null) {
      session.setAnnounced(-1); // the orchestrator halves its window
      attempts.markOver(ref);
      reject(ref, refusal, frame.getSequence());
      return;
    }
    Attempt attempt = new Attempt(agent, ref, session);
    attempt.channel().take(frame.getSequence());
    attempts.add(attempt);
    attempt.start(frame.getAssignTask().hasBidRequest() ? agent.bids() : agent.handler(), frame.getAssignTask());
  }

  private void reject(TaskRef ref, ArchonException error, long ack) {
    Reject reject = Reject.newBuilder().setFailure(Failures.toFailure(error)).build();
    session.putError(AgentFrame.newBuilder().setTask(ref).setSequence(1).setAck(ack).setReject(reject).build());
  }

  private void adopt(OrchestratorFrame frame, Attempt attempt) {
    if (attempt == null) {
      ArchonException notHeld = ArchonException.of(Reasons.NOT_HELD, "this instance does not hold the task").build();
      reject(frame.getTask(), notHeld, frame.getSequence());
      return;
    }
    attempt.bind(session, frame.getTask().getEpoch());
    if (attempt.isWorking()) {
      if (frame.getAdoptTask().hasRemaining()) {
        attempt.setRemaining(Wire.seconds(frame.getAdoptTask().getRemaining()));
      }
      attempt.sendAdopted(session);
    }
    attempt.resend(frame.getAdoptTask().getLastApplied());
    if (attempt.isWorking()) {
      attempt.sendUsage();
    }
  }

  private void failure(OrchestratorFrame frame, Attempt attempt) {
    ArchonException error = Failures.fromFailure(frame.getFailure());
    if (attempt != null && error.is(Reasons.SEQUENCE_GAP)) {
      String expected = error.metadata().getOrDefault("expected", "1");
      attempt.resend(expected.matches("[0-9]{1,18}") ? Long.parseLong(expected) - 1 : 0);
    } else if (attempt != null && error.is(Reasons.UNKNOWN_FRAME)) {
      attempt.calls().refuse(error);
    } else {
      session.complain("the orchestrator refused a frame of task " + frame.getTask().getTaskId(), error.toString());
    }
  }
}
