// Package lambdahost runs real Lambda binaries on one machine. It plays the part
// of the AWS Lambda service: it starts "bootstrap" executables, talks to them
// over the Lambda Runtime API, feeds them from SQS queues and fires them on a
// schedule. The binaries cannot tell the difference, and are the ones deployed.
//
// A tour:
//
//   - host.go: [Host], its options, and how it shuts down.
//   - function.go: [Function] is what is deployed; [Deployed.Invoke] finds or
//     starts an execution environment and waits for the reply.
//   - pool.go: which environments exist: starting on demand, backing off when
//     they fail to start, reaping the idle ones.
//   - environment.go: one process, from fork to reaping.
//   - runtimeapi.go: the HTTP interface such a process sees.
//   - invocation.go: one event on its way, and [FunctionError].
//   - child_linux.go, child_unix.go: how a child dies with its parent.
//   - lines/: one line out of many processes at a time.
//   - source/: the SQS event source mapping and the EventBridge schedule.
//
// One process is one execution environment and handles one invocation at a time,
// as on AWS. Each process has a listener of its own on the loopback interface, so
// that a request needs no name to be told from a neighbour's, a runtime in any
// language works, and nobody can answer for a process that has been replaced.
//
// The rules are those of the AWS documentation ("Building a custom runtime",
// "Lambda runtime API", "Using Lambda with Amazon SQS"). What differs on purpose:
// memory is reported to the function but not enforced, there are no asynchronous
// retries, and an environment that does not start is tried twice before the
// invocation that needed it fails.
package lambdahost
