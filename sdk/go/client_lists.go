package archon

import (
	"context"
	"iter"

	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

// List returns the newest runs first, at most limit (0: 100), without tasks and answers, of a session if it is named.
func (c *Client) List(ctx context.Context, sessionID string, limit int, states ...TaskState) ([]*Run, error) {
	if limit <= 0 {
		limit = 100
	}
	request := &orchestratorv1.ListRunsRequest{SessionId: sessionID}
	for _, state := range states {
		request.States = append(request.States, state.Proto())
	}
	var runs []*Run
	for len(runs) < limit {
		request.PageSize = int32(min(maxPage, limit-len(runs)))
		call, cancel := context.WithTimeout(ctx, callTimeout)
		response, err := c.stub.ListRuns(call, request)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, run := range response.GetRuns() {
			runs = append(runs, RunOf(run))
		}
		if request.PageToken = response.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	return runs, nil
}

// Questions returns the open questions of all runs to people, the newest run's first.
func (c *Client) Questions(ctx context.Context) ([]RunQuestion, error) {
	request := &orchestratorv1.ListQuestionsRequest{PageSize: maxPage}
	var questions []RunQuestion
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		response, err := c.stub.ListQuestions(call, request)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, question := range response.GetQuestions() {
			questions = append(questions, questionOf(question))
		}
		if request.PageToken = response.GetNextPageToken(); request.PageToken == "" {
			return questions, nil
		}
	}
}

// Records yields the recorded model and tool calls of a run, in order; of a role if it is named.
func (c *Client) Records(ctx context.Context, runID, role string) iter.Seq2[*orchestratorv1.RunRecord, error] {
	return func(yield func(*orchestratorv1.RunRecord, error) bool) {
		request := &orchestratorv1.ListRunRecordsRequest{RunId: runID, Role: role}
		for {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			response, err := c.stub.ListRunRecords(call, request)
			cancel()
			if err != nil {
				yield(nil, err)
				return
			}
			for _, record := range response.GetRecords() {
				if !yield(record, nil) {
					return
				}
			}
			if request.PageToken = response.GetNextPageToken(); request.PageToken == "" {
				return
			}
		}
	}
}
