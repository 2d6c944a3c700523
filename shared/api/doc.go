// Package api is the HTTP interface of the engine: an [http.Handler] on a plain
// [http.ServeMux], for a Lambda function, the local stack and tests alike.
//
// The document comes first: openapi.yaml says what every route takes and
// answers. From it come document/openapi.json, which is served and enforced; the
// routes with their typed parameters, and the shapes that are not nouns of ours,
// in gen. A route that the document marks as
// planned answers 501 and needs no code.
//
// A tour, in the order in which a request passes:
//
//   - api.go: what the engine has to offer ([Services]), and what is set from
//     outside ([Options]).
//   - front.go: ids, security headers, panics, unknown paths and methods.
//   - identity.go: who asks.
//   - guard.go: whether the request is what the document says; everything wrong
//     with it is reported at once, each with its place (room document).
//   - definitions.go, entities.go, executions.go, verbs.go, reads.go, upkeep.go, service.go:
//     one handler a route, a few lines each.
//   - page.go: tokens of lists. Room shape: how nouns look from outside.
//   - problem.go: how errors look from outside.
//
// Every error, whatever its origin, is an RFC 9457 problem with a code, and
// never shows a stack or the text of an error that is not meant for people.
package api
