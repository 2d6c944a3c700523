// Package gen is generated from ../openapi.yaml: the routes with their typed
// parameters, and the shapes of answers that are not nouns of shared/workflow.
//
//   - server.yaml: what is generated. overlay.yaml: which schema is which noun.
//   - server.gen.go: the result; run go generate ./shared/api after a change.
package gen
