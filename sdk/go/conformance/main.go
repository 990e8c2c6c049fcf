// Command conformance is the subject of the Go SDK for the conformance suite: conformance agent|client|echo. The protocol is in
// sdk/conformance/README.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	archon "github.com/archon-mesh/archon/sdk/go"
)

var output sync.Mutex

// say writes a line to standard output.
func say(line map[string]any) {
	output.Lock()
	defer output.Unlock()
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// shown returns all that an error has.
func shown(err error) map[string]any {
	e := archon.ToError(err, "")
	violations := [][]string{}
	for _, each := range e.Violations {
		violations = append(violations, []string{each.Field, each.Description})
	}
	metadata := e.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	var delay any
	if e.RetryDelay != nil {
		delay = e.RetryDelay.Seconds()
	}
	return map[string]any{
		"code": archon.CodeName(e.Code), "reason": e.Reason, "message": e.Error(), "kind": e.Kind, "retry": e.Retry.String(),
		"retry_delay": delay, "metadata": metadata, "violations": violations,
	}
}

// lines returns the lines of standard input; the channel is closed at its end.
func lines() <-chan []byte {
	read := make(chan []byte)
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(os.Stdin)
		scanner.Buffer(nil, 64<<20)
		for scanner.Scan() {
			read <- append([]byte(nil), scanner.Bytes()...)
		}
	}()
	return read
}

func main() {
	var err error
	switch mode := os.Args[len(os.Args)-1]; mode {
	case "agent":
		err = serve()
	case "client":
		err = call()
	case "echo":
		os.Exit(serveEcho())
	default:
		err = fmt.Errorf("unknown mode %q: agent, client or echo", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
