// A stranger's module: it knows the generated stubs and nothing else of Archon.
module archon-agent

go 1.24.0

require (
	github.com/archon-mesh/archon/sdk/go v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217
	google.golang.org/grpc v1.78.0
	google.golang.org/protobuf v1.36.11
)

require (
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sys v0.38.0 // indirect
	golang.org/x/text v0.31.0 // indirect
)

// Generated into this folder as it is built.
replace github.com/archon-mesh/archon/sdk/go => ./stubs
