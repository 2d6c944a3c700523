// Package lambdahttp serves an http.Handler as a Lambda function behind an API
// Gateway HTTP API (payload format 2.0).
//
// It is a room of its own because the API itself must not know Lambda's event
// types: the same handler is served by a plain http.Server in tests. The adapter
// is written here, rather than taken from a module, because the usual ones link
// several web frameworks and a function pays for each byte at its cold start.
//
// A tour:
//
//   - handler.go: [New], the Lambda handler.
//   - request.go: from the event to an http.Request.
//   - response.go: from what the handler wrote to the reply.
//   - identity.go: who the caller is, from the gateway's authorizer.
package lambdahttp
