// Package stack brings up the whole of Lockstep on one machine: DynamoDB as a
// child process, SQS in this process, the four function binaries under the local
// Lambda host, the HTTP API on one port, the schedule, and worker programs.
//
// The adapters, the SDK and the handlers are the ones that run on AWS; only the
// endpoints differ. Everything this package starts ends with it, however it ends.
//
// A tour: stack.go starts and stops in order, stores.go provides DynamoDB and
// SQS, functions.go deploys the binaries, workers.go keeps worker programs alive,
// claim.go keeps a data directory to one stack.
package stack
