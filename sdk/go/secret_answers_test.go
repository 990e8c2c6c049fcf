package archon_test

import (
	"errors"
	"strings"
	"testing"

	archon "github.com/archon-mesh/archon/sdk/go"
)

func secretQuestion(t *testing.T) *archon.SecretQuestion {
	t.Helper()
	question, err := archon.NewSecretQuestion()
	if err != nil {
		t.Fatal(err)
	}
	return question
}

func TestASecretAnswerIsReadByItsQuestionAlone(t *testing.T) {
	question := secretQuestion(t)
	sealed, err := archon.SealAnswer(question.SchemaJSON(), "hunter2 é")
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := question.Open(sealed); err != nil || opened != "hunter2 é" || strings.Contains(sealed, "hunter2") {
		t.Fatalf("%q, %v", opened, err)
	}
	for _, answer := range []string{"hunter2", "sealed:", "sealed:!", "sealed:AAAA", ""} {
		if _, err := question.Open(answer); !errors.Is(err, archon.ReasonInvalidArgument) || strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("%q: %v", answer, err)
		}
	}
	if _, err := secretQuestion(t).Open(sealed); !errors.Is(err, archon.ReasonInvalidArgument) {
		t.Fatal(err)
	}
}

func TestAnAnswerThatCannotBeSealedIsRefused(t *testing.T) {
	schema := secretQuestion(t).SchemaJSON()
	if !archon.IsSecret(schema) || archon.IsSecret(`{"type": "string"}`) {
		t.Fatal("a schema with a public key asks for a secret")
	}
	for schema, answer := range map[string]string{
		schema: strings.Repeat("x", archon.MaxSecret+1), `{"type": "string"}`: "x", "no JSON": "x",
		`{"x-archon-public-key": "AAAA"}`: "x",
	} {
		if _, err := archon.SealAnswer(schema, answer); !errors.Is(err, archon.ReasonInvalidArgument) {
			t.Fatalf("%s: %v", schema, err)
		}
	}
}
