// Package infra deploys Lockstep: a CDK construct, [NewEngine], that makes the
// tables, queues, functions, schedule and HTTP interface in whatever stack it is
// put into, and [Engine.AddWorkerPool], which adds workers of your own to it.
//
// Every name on which the deployed code depends (roles of tables, keys, indexes,
// time-outs, environment variables) comes from shared/topology, the one room of
// the product that this one may import. Physical names are left to
// CloudFormation, so that several installs fit one account and a table or queue
// is never replaced because of its name; the functions learn them from their
// environment.
//
// A tour:
//
//   - props.go, defaults.go: [EngineProps], what may be chosen, its defaults and checks.
//   - engine.go: [NewEngine], the order in which the parts come to be, the outputs.
//   - queues.go: the queues with their dead letters.
//   - functions.go: one function, its role, its log group; the queue mappings.
//   - pools.go: pools of workers, the stock one and those of the user.
//   - permissions.go: who may do what; rights on tables are rows of topology.
//   - schedule.go: what makes the sweeper run.
//   - quiet.go: keeping CDK's kernel from printing banners.
//
// Below it, kept makes tables and says what outlives a stack, front makes the HTTP
// interface, watch the alarms and the dashboard; bounds says before a deployment what AWS
// would say at its end. app is the app around one engine that cmd/infra runs, examples/cdk
// an app of a user's.
//
// Where a part is a plain CloudFormation resource (Cfn...) rather than one of
// CDK's own abstractions, the abstraction would have granted more than is needed,
// or its package would have doubled the time that this one takes to compile.
//
// The template is tested in plain Go on the synthesised JSON; a golden summary
// in testdata shows a change of types, counts or permissions in review
// (go test ./infra -update).
package infra
