// Command errors shows what is done about errors: errors HOST:PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
)

func explain(err error) string {
	switch {
	case errors.Is(err, archon.ReasonUnknownRole): // a reason of the contract
		return "start an agent of that role"
	case errors.Is(err, archon.ErrUnavailable): // a gRPC code
		return "try again later"
	case errors.Is(err, context.DeadlineExceeded): // also of the other side
		return "allow it more time"
	}
	if e := archon.AsError(err); e != nil && e.Retry == archon.RetryLater && e.RetryDelay != nil {
		return "try again in " + e.RetryDelay.String()
	}
	return "report it"
}

func main() {
	client, err := archon.NewClient(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := client.Run(ctx, archon.Submission{Goal: "hello", Roles: []string{"nobody"}}); err != nil {
		fmt.Println(err, "-", explain(err))
	}
}
