// Package topology names what infrastructure and code must agree on: tables,
// indexes, attributes that are keys, queues, functions and the environment
// variables through which a function learns where they are.
//
// The CDK stack, the local stack and the adapters all read these names from
// here, so that a name is spelled once. The package imports nothing.
package topology
