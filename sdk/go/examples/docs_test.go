// Package examples checks that the documentation shows the programs of its folders unchanged.
package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?s)```go\n(.*?)```")

func TestThePageQuotesTheExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "go.md"))
	if err != nil {
		t.Skipf("the page is not there: %v", err)
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(text)
	}
	quotes := block.FindAllStringSubmatch(string(page), -1)
	if len(quotes) < 10 {
		t.Fatalf("the page has %d quotes", len(quotes))
	}
	for _, quote := range quotes {
		if !strings.Contains(sources.String(), quote[1]) {
			t.Errorf("no example has this text:\n%s", quote[1])
		}
	}
}
