package agent

import (
	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

// Option sets a property of an agent.
type Option func(*options)

type options struct {
	settings     *Settings
	change       []func(*Settings)
	registration *registryv1.Registration
	maxWaiting   int
	shared       []tools.SharedTool
	bid          Handler
	onMessage    MessageHandler
	onDirect     DirectHandler
	topics       []string
	health       func() []ToolHealth
}

// WithSettings uses settings in place of those of the environment.
func WithSettings(settings Settings) Option { return func(o *options) { o.settings = &settings } }

// WithRegistry registers at host:port (ARCHON_REGISTRY).
func WithRegistry(address string) Option { return setting(func(s *Settings) { s.Registry = address }) }

// WithAttach dials the orchestrator at host:port and attaches to it (ARCHON_ATTACH), for an agent that cannot be dialled: it
// neither listens nor calls the registry.
func WithAttach(address string) Option { return setting(func(s *Settings) { s.Attach = address }) }

// WithAddress listens on host and port (ARCHON_HOST, ARCHON_PORT); port 0 is a free one.
func WithAddress(host string, port int) Option {
	return setting(func(s *Settings) { s.Host, s.Port = host, port })
}

func setting(change func(*Settings)) Option {
	return func(o *options) { o.change = append(o.change, change) }
}

func registered(change func(*registryv1.Registration)) Option {
	return func(o *options) { change(o.registration) }
}

// WithVersion sets the version of the role, dotted numbers; 0.1.0 by default.
func WithVersion(version string) Option {
	return registered(func(r *registryv1.Registration) { r.Version = version })
}

// WithDescription describes the role, for people and for models that choose a role.
func WithDescription(text string) Option {
	return registered(func(r *registryv1.Registration) { r.Description = cleanText(text) })
}

// WithCapabilities adds capabilities of the role, by their ids.
func WithCapabilities(ids ...string) Option {
	return registered(func(r *registryv1.Registration) {
		for _, id := range ids {
			r.Capabilities = append(r.Capabilities, &commonv1.Capability{Id: id})
		}
	})
}

// WithCapability adds a capability with a description.
func WithCapability(id, name, description string) Option {
	return registered(func(r *registryv1.Registration) {
		r.Capabilities = append(r.Capabilities, &commonv1.Capability{
			Id: id, Name: cleanText(name), Description: cleanText(description),
		})
	})
}

// WithTools adds tools of the role to its registration, which are not shared.
func WithTools(added ...tools.Tool) Option {
	return registered(func(r *registryv1.Registration) {
		for _, tool := range added {
			r.Tools = append(r.Tools, tool.Proto())
		}
	})
}

// WithSharedTools shares tools: other agents may lease them and execute them here.
func WithSharedTools(shared ...tools.SharedTool) Option {
	return func(o *options) { o.shared = append(o.shared, shared...) }
}

// WithDependsOn names roles whose answers tasks of this role receive.
func WithDependsOn(roles ...string) Option {
	return registered(func(r *registryv1.Registration) {
		for _, role := range roles {
			r.DependsOn = append(r.DependsOn, &registryv1.DependsOn{Role: role, Policy: archon.FinalResponseOnly.Proto()})
		}
	})
}

// WithDependency names a role whose answers tasks of this role receive, over an edge with a policy.
func WithDependency(role string, policy archon.Policy) Option {
	return registered(func(r *registryv1.Registration) {
		r.DependsOn = append(r.DependsOn, &registryv1.DependsOn{Role: role, Policy: policy.Proto()})
	})
}

// WithTags labels the instance.
func WithTags(tags map[string]string) Option {
	return registered(func(r *registryv1.Registration) { r.Tags = cleanMap(tags) })
}

// WithAllAncestors has tasks receive the answers of all ancestors, not only of the roles that the role depends on.
func WithAllAncestors() Option {
	return registered(func(r *registryv1.Registration) { r.AllAncestors = true })
}

// AsCoordinator has tasks receive descriptions of the other roles.
func AsCoordinator() Option {
	return registered(func(r *registryv1.Registration) { r.Coordinator = true })
}

// AsStateful has tasks receive the history of their session, which their answers extend.
func AsStateful() Option {
	return registered(func(r *registryv1.Registration) { r.Stateful = true })
}

// AsPlanner has tasks receive requests for plans.
func AsPlanner() Option {
	return registered(func(r *registryv1.Registration) { r.Planner = true })
}

// WithOutputSchema says that answers are one JSON part that matches a JSON Schema.
func WithOutputSchema(schemaJSON string) Option {
	return registered(func(r *registryv1.Registration) { r.OutputSchemaJson = schemaJSON })
}

// WithProfile adds facts for callers and planners.
func WithProfile(profile *commonv1.Profile) Option {
	return registered(func(r *registryv1.Registration) { r.Profile = profile })
}

// WithMaxTasks sets how many tasks run at once, over all orchestrators together; 8 by default.
func WithMaxTasks(count int) Option {
	return registered(func(r *registryv1.Registration) { r.MaxTasks = int32(count) })
}

// WithMaxWaiting sets how many more tasks may wait for their delegations; 100 by default.
func WithMaxWaiting(count int) Option { return func(o *options) { o.maxWaiting = count } }

// WithBid sets the handler of tasks that ask for a bid (Task.BidRequest): its answer is one JSON object with cost_micro_usd,
// seconds and quality. Without one, the bid has the estimates of the profile.
func WithBid(handler Handler) Option { return func(o *options) { o.bid = handler } }

// WithToolHealth returns the health of the tools, for Describe.
func WithToolHealth(health func() []ToolHealth) Option { return func(o *options) { o.health = health } }

func (s *Settings) apply(registration *registryv1.Registration) {
	if s.DependsOn != nil {
		registration.DependsOn = nil
		for _, role := range s.DependsOn {
			registration.DependsOn = append(registration.DependsOn,
				&registryv1.DependsOn{Role: role, Policy: archon.FinalResponseOnly.Proto()})
		}
	}
	if s.MaxTasks > 0 {
		registration.MaxTasks = int32(s.MaxTasks)
	}
	registration.Ttl = durationpb.New(s.TTL)
}
