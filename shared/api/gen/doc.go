// Package gen is generated from ../openapi.yaml: the routes with their typed parameters, and the
// response types that shared/views and shared/workflow do not have.
//
//   - server.yaml: what is generated. overlay.yaml: which schema is which Go type.
//   - server.gen.go: the result; run go generate ./shared/api after a change.
//
// It is a package of its own because everything in it is generated.
package gen
