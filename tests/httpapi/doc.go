// Package front asks the HTTP interface everything that the OpenAPI document
// allows, and much that it does not: the real routes over the real engine,
// catalog and blackboard, in the simulated world, in one process.
//
// A tour. world_test.go puts the interface over a world and lets its workers work.
// document_test.go reads the document: its routes, and what each may answer.
// values_test.go makes values that fit a schema, and values that nearly do;
// requests_test.go makes requests of them, about things that exist and things that
// do not. generated_test.go sends thousands and judges every answer.
// tenants_test.go goes over every route as two tenants, and limits_test.go to each
// limit and one beyond. A route that is added to the document fails these tests
// until they know what to do with it.
package httpapi
