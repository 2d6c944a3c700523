// Package app is the CDK app of Lockstep for those who have none of their own: one
// stack with one engine. cmd/infra runs it. It is a user of the public construct
// like any other; examples/cdk shows one with a worker pool.
//
// The qualifier of the account's bootstrap stack and a permissions boundary are
// CDK's to respect, through its own context keys (@aws-cdk/core:bootstrapQualifier,
// @aws-cdk/core:permissionsBoundary).
package app
