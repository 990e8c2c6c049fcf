// Package archon is the Go SDK of Archon, a mesh of agents.
//
// A program that submits runs uses [Client]; one that serves a role uses the package agent:
//
//	server, err := agent.New("translator", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
//		return agent.Text("Bonjour, " + task.Text()), nil
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	os.Exit(server.Run(context.Background()))
//
// Every call takes a context: its deadline is sent to the other side and shrinks with each hop, its OpenTelemetry span is
// the parent of the work that the call starts. Every error that a member of the mesh raised is an [*Error], with the same
// code, reason and kind on both sides:
//
//	if errors.Is(err, archon.ReasonUnknownRole) { ... }
//	if errors.Is(err, archon.ErrUnavailable) { ... }
package archon
