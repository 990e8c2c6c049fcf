// Package agent makes a function a full member of the mesh: an agent that serves a role.
//
// A Server keeps the registration alive, takes sessions of orchestrators, runs the handler once for each task, and delivers
// results also if streams break, the orchestrator restarts, or another one takes the run over. It serves on a port, or
// dials an orchestrator if it cannot be dialled itself (WithAttach, ARCHON_ATTACH).
//
// A handler's context is cancelled if the task is cancelled or its time is over. An error that it returns is the task's
// failure, typed if it is an *archon.Error; a panic becomes a failure, too, and ends nothing else.
package agent
