// Package document holds the OpenAPI document in its served form and judges
// requests by it, so that what the document promises is what is enforced.
//
//   - document.go: reads the document: routes, parameters, bodies, schemas.
//   - judge.go: parameters and bodies of a request against it.
//   - issues.go: what a schema complains of, in words and with its place.
//
// openapi.json is generated from ../openapi.yaml.
package openapi
