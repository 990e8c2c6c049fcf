package agent

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// Question is a question to a person. SchemaJSON is a JSON Schema (2020-12) that the answer must match; empty means free
// text. InputID is unique in the task; if empty it is made. Parts precede Text.
//
// Of an approval a decision is expected: approve, reject or modify. The schema is then the modification's, and SubjectJSON
// the subject of the decision. Terms has the approvers and the time limit; nil: anyone, without limit. Checkpoint is used
// only if the question ends the attempt (see Ask).
type Question struct {
	Text        string
	SchemaJSON  string
	InputID     string
	Parts       []archon.Part
	Checkpoint  []byte
	IsApproval  bool
	SubjectJSON string
	Terms       *QuestionTerms
}

// QuestionTerms says who may answer, in what time, and what follows if no answer comes: abort, default or escalate.
type QuestionTerms struct {
	Approvers     []string
	Timeout       time.Duration
	OnTimeout     string
	DefaultAnswer string
}

// GivenAnswer is a person's answer. Decision is approve, reject or modify, empty if the question was no approval. Identity
// is empty if the default answer counts because no answer came in time.
type GivenAnswer struct {
	InputID  string
	Text     string
	Parts    []archon.Part
	Decision string
	Identity string
}

func (q Question) proto(inputID string) *agentv1.InputRequest {
	request := &agentv1.InputRequest{
		InputId: cleanText(inputID), SchemaJson: cleanText(q.SchemaJSON), SubjectJson: cleanText(q.SubjectJSON),
		Prompt: archon.PartMessages(q.Parts),
	}
	if q.IsApproval {
		request.Kind = commonv1.QuestionKind_QUESTION_KIND_APPROVAL
	}
	if q.Text != "" {
		request.Prompt = append(request.Prompt, archon.TextPart(q.Text).Proto())
	}
	if q.Terms != nil {
		request.Terms = &commonv1.QuestionTerms{
			Approvers: q.Terms.Approvers, DefaultAnswer: cleanText(q.Terms.DefaultAnswer),
			OnTimeout: commonv1.TimeoutPolicy(commonv1.TimeoutPolicy_value["TIMEOUT_POLICY_"+strings.ToUpper(q.Terms.OnTimeout)]),
		}
		if q.Terms.Timeout > 0 {
			request.Terms.Timeout = durationpb.New(q.Terms.Timeout)
		}
	}
	return request
}

// answered is the part that the answers of an input and of a resumed input share.
type answered interface {
	GetInputId() string
	GetParts() []*commonv1.Part
	GetDecision() commonv1.Decision
	GetIdentity() string
}

func givenAnswer(answer answered) GivenAnswer {
	decision := ""
	if name, ok := commonv1.Decision_name[int32(answer.GetDecision())]; ok && answer.GetDecision() != 0 {
		decision = strings.ToLower(strings.TrimPrefix(name, "DECISION_"))
	}
	return GivenAnswer{
		InputID: answer.GetInputId(), Text: archon.TextOf(answer.GetParts()), Parts: archon.PartsOf(answer.GetParts()),
		Decision: decision, Identity: answer.GetIdentity(),
	}
}
