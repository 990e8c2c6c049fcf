package agent

import (
	"errors"
	"strconv"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

func (s *session) taskFrame(frame *agentv1.OrchestratorFrame) error {
	table, ref := s.server.table, frame.GetTask()
	held := table.newest(ref.GetTaskId())
	if held == nil {
		if err := checkRef(ref); err != nil {
			return err
		}
	} else if !held.heeds(s.orchestratorID, ref) {
		return notYours(ref)
	}
	if err := table.checkEpoch(ref, held); err != nil {
		return err
	}
	var a *attempt
	if held != nil && held.channel.Ref.GetAttempt() == ref.GetAttempt() {
		a = held
	}
	_, assigns := frame.GetFrame().(*agentv1.OrchestratorFrame_AssignTask)
	if a != nil {
		if frame.GetAck() > 0 {
			a.acked(frame.GetAck())
		}
		if frame.GetSequence() > 0 && !assigns {
			if verdict := a.channel.Take(frame.GetSequence()); verdict != frames.Apply {
				return s.outOfOrder(a, frame, verdict)
			}
		}
	}
	err := s.apply(frame, a)
	if a != nil && !a.working() && !a.channel.HasUnacked() {
		table.drop(a) // its result is acknowledged
	}
	return err
}

func (s *session) outOfOrder(a *attempt, frame *agentv1.OrchestratorFrame, verdict frames.Verdict) error {
	if verdict == frames.Gap {
		return sequenceGap(frame.GetSequence(), a.channel.Received+1)
	}
	if cancel, ok := frame.GetFrame().(*agentv1.OrchestratorFrame_CancelTask); ok {
		// Idempotent, and a new owner that counts from 1 must be obeyed.
		a.cancel(cancel.CancelTask.GetReason() != frames.Superseded)
	}
	return nil
}

func (s *session) apply(frame *agentv1.OrchestratorFrame, a *attempt) error {
	switch arm := frame.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_AssignTask:
		return s.assign(frame, arm.AssignTask, a)
	case *agentv1.OrchestratorFrame_AdoptTask:
		return s.adopt(frame, arm.AdoptTask, a)
	case *agentv1.OrchestratorFrame_Failure:
		s.failed(frame, arm.Failure, a)
		return nil
	case nil:
		if frame.GetAck() > 0 && frame.GetSequence() == 0 && len(frame.ProtoReflect().GetUnknown()) == 0 {
			return nil // only an ack
		}
		return unknownFrame()
	case *agentv1.OrchestratorFrame_CancelTask:
		if a != nil {
			a.cancel(arm.CancelTask.GetReason() != frames.Superseded)
		}
		return nil
	case *agentv1.OrchestratorFrame_Discarded:
		if a != nil {
			s.server.table.drop(a)
		}
		return nil
	}
	switch frame.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_DelegateResult, *agentv1.OrchestratorFrame_BudgetGrant,
		*agentv1.OrchestratorFrame_Input, *agentv1.OrchestratorFrame_MessageResult:
		if a != nil {
			a.calls.answered(frame)
		}
	case *agentv1.OrchestratorFrame_UpdateMemory:
		if a != nil && a.task != nil {
			a.task.update(frame.GetUpdateMemory().GetContext())
		}
	case *agentv1.OrchestratorFrame_Message:
		if a != nil && a.task != nil {
			a.task.inbox.put(frame.GetMessage())
		}
	default: // an arm of the session, with a task
		return unknownFrame()
	}
	return nil
}

func (s *session) assign(frame *agentv1.OrchestratorFrame, assigned *agentv1.AssignTask, a *attempt) error {
	server, ref := s.server, frame.GetTask()
	if a != nil {
		a.channel.Take(frame.GetSequence()) // a copy: the task is in progress
		return nil
	}
	if frame.GetSequence() > 1 {
		return sequenceGap(frame.GetSequence(), 1)
	}
	newest := server.table.newest(ref.GetTaskId())
	if newest != nil && newest.channel.Ref.GetAttempt() > ref.GetAttempt() {
		return nil // a late frame of a superseded attempt
	}
	if server.table.isOver(ref) {
		return nil
	}
	if refusal := server.refusal(newest, s); refusal != nil {
		s.announced = -1 // the orchestrator halves its window
		server.table.markOver(ref)
		return s.reject(ref, refusal, frame.GetSequence())
	}
	a = newAttempt(server, ref, &s.sink)
	if frame.GetSequence() > 0 {
		a.channel.Take(frame.GetSequence())
	}
	server.table.add(a)
	a.start(assigned)
	return nil
}

func (s *session) reject(ref *commonv1.TaskRef, err *archon.Error, ack int64) error {
	return s.putError(&agentv1.AgentFrame{
		Task: ref, Sequence: 1, Ack: ack,
		Frame: &agentv1.AgentFrame_Reject{Reject: &agentv1.Reject{Failure: err.ToFailure()}},
	})
}

func (s *session) adopt(frame *agentv1.OrchestratorFrame, adopt *agentv1.AdoptTask, a *attempt) error {
	if a == nil {
		return s.reject(frame.GetTask(),
			archon.NewError(archon.ReasonNotHeld, "this instance does not hold the task"), frame.GetSequence())
	}
	a.bind(&s.sink, frame.GetTask().GetEpoch())
	if adopt.Remaining != nil {
		a.setRemaining(adopt.GetRemaining().AsDuration())
	}
	if a.working() {
		a.sendAdopted(&s.sink)
	}
	a.resend(adopt.GetLastApplied())
	if a.working() {
		a.sendUsage()
	}
	return nil
}

func (s *session) failed(frame *agentv1.OrchestratorFrame, failure *commonv1.Failure, a *attempt) {
	err := archon.FromFailure(failure)
	switch {
	case a != nil && errors.Is(err, archon.ReasonSequenceGap):
		expected, parseErr := strconv.ParseInt(err.Metadata["expected"], 10, 64)
		if parseErr != nil || expected < 1 {
			expected = 1
		}
		a.resend(expected - 1)
	case a != nil && errors.Is(err, archon.ReasonUnknownFrame):
		a.calls.refuse(err)
	default:
		s.complain("the orchestrator refused a frame of task "+cut(frame.GetTask().GetTaskId(), maxID), err.Error())
	}
}
