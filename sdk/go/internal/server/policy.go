package server

// Kinds of callers.
const (
	viewer   = "viewer"
	auditor  = "auditor"
	operator = "operator"
	admin    = "admin"
	agent    = "agent"
	service  = "service"
)

var everybody = []string{viewer, auditor, operator, admin, agent, service}

// policy says who may call which RPC of an agent; what is not in it is refused.
var policy = map[string][]string{
	"/archon.api.agent.v1.AgentService/Describe":  everybody,
	"/archon.api.agent.v1.AgentService/RunTask":   {service, admin},
	"/archon.api.agent.v1.AgentService/Session":   {service},
	"/archon.api.agent.v1.AgentService/Deliver":   {service, admin, agent},
	"/archon.api.tool.v1.ToolService/ListTools":   everybody,
	"/archon.api.tool.v1.ToolService/LeaseTool":   {service, admin, agent, operator},
	"/archon.api.tool.v1.ToolService/ExecuteTool": {service, admin, agent, operator},
	"/archon.api.tool.v1.ToolService/RevokeLease": {service, admin, agent, operator},
}
