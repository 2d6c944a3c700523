// Package schema validates JSON against JSON Schema (2020-12), and tells each
// violation at the field it is about. A schema stands by itself: nothing is
// loaded from anywhere. work.go bounds what one can ask for.
package schema
