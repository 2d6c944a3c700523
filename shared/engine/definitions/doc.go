// Package library keeps what is immutable once published, so that a warm process
// reads it once: compiled definitions and function blocks, by tenant and exact
// version. It also lets the decider evaluate a compiled definition
// (expressions.go), without the decider knowing the expression language.
package definitions
