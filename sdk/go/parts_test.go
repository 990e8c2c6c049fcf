package archon_test

import (
	"context"
	"errors"
	"testing"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

func TestTheTextOfPartsIsThatOfTheContract(t *testing.T) {
	data, err := archon.JSONPart(map[string]any{"a": "<b>"})
	if err != nil {
		t.Fatal(err)
	}
	other := archon.Part{DataJSON: "{}", MediaType: "application/x-other+json"}
	parts := archon.PartMessages([]archon.Part{
		archon.TextPart("one"), archon.RawPart([]byte{1}, "image/png"), data, other, archon.TextPart("two\xff"),
	})
	if text := archon.TextOf(parts); text != "one\n\n{\"a\":\"<b>\"}\n\ntwo?" {
		t.Fatalf("the text is %q", text)
	}
}

func TestAnEmptyTextIsAText(t *testing.T) {
	message := archon.TextPart("").Proto()
	if _, ok := message.GetContent().(*commonv1.Part_Text); !ok {
		t.Fatalf("the part is %v", message)
	}
}

func TestAGoalThatIsTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	client, err := archon.NewClient("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Submit(context.Background(), archon.Submission{Goal: string(make([]byte, 5<<20))})
	if !errors.Is(err, archon.ReasonMessageTooLarge) {
		t.Fatalf("it ended with %v", err)
	}
	_, err = client.Submit(context.Background(), archon.Submission{Goal: "g", Strategy: "guess"})
	if !errors.Is(err, archon.ErrInvalidArgument) {
		t.Fatalf("it ended with %v", err)
	}
}

func TestAnOrchestratorThatIsNotThereIsUnavailable(t *testing.T) {
	client, err := archon.NewClient("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if _, err := client.Get(ctx, "run"); !errors.Is(err, archon.ErrUnavailable) {
		t.Fatalf("it ended with %v", err)
	}
}

func TestAnAddressWithoutAPortIsRefused(t *testing.T) {
	if _, err := archon.NewClient("localhost"); !errors.Is(err, archon.ErrInvalidArgument) {
		t.Fatalf("it ended with %v", err)
	}
}
