// Package schema validates JSON against JSON Schema (2020-12), and tells each
// violation at the field it is about. A schema stands by itself: nothing is
// loaded from anywhere.
package schema
