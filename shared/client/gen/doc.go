// Package gen is generated from shared/api/openapi.yaml: the requests of every
// route that is served. [github.com/lockstep-run/lockstep/shared/client] is the
// client to use.
//
//   - client.yaml: what is generated. overlay.yaml: which schema is which noun.
//   - client.gen.go: the result; run go generate ./shared/api after a change.
package gen
