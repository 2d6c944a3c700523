// Package doctor examines a deployment and says, of each thing that has to be so,
// whether it is, and if not what to do next.
//
// report.go is what it says, service.go what it asks the service over HTTP and
// rights.go what the caller may do there; stack.go, find.go, parts.go and rest.go look
// at the parts of a stack in AWS, over the port Cloud; verb.go is the verb. It
// changes nothing: to learn what a caller may do, it asks for what cannot be done.
package doctor
